// SPDX-License-Identifier: Apache-2.0
// MPT with alibi: no biases, norms included.
#include "base/status.h"
#include "models/alibi.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::mpt {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return stacked_attention(g, c, x, layer, "attn.Wqkv", "attn.out_proj");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "ffn.up_proj", "ffn.down_proj");
}

void build_mpt(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "transformer.wte",
                .layers = "transformer.blocks",
                .attention_norm = "norm_1",
                .mlp_norm = "norm_2",
                .norm = "transformer.norm_f"});
}

// The members of attn_config. Nothing turns, however it would.
constexpr Family kAttention = {.keys = {"alibi", "alibi_bias_max", "attn_type", "qk_ln",
                                        "prefix_lm", "rope", "attn_impl", "rope_impl",
                                        "rope_dail_config", "rope_hf_config", "sliding_window_size",
                                        "clip_qkv", "softmax_scale"}};

absl::Status check_attention(const Json& config) {
  const OnlyValue only[] = {{"alibi", true},      {"alibi_bias_max", 8},
                            {"qk_ln", false},     {"attn_type", "multihead_attention"},
                            {"prefix_lm", false}, {"sliding_window_size", -1},
                            {"rope", false}};
  const absl::Status status = check_only(config, only);
  if (!status.ok()) return invalid_argument("attn_config.{}", message_of(status));
  ASSIGN_OR_RETURN(const Json unknown, unknown_keys(config, kAttention));
  const UnknownKeys all[] = {{"attn_config.", unknown}};
  return refuse_unknown(all);
}

absl::Status refine_mpt(const Json& json, Config& c) {
  const Json config = json.value("attn_config", Json::object());
  if (!config.is_object()) {
    return invalid_argument("attn_config: must be an object, found {}", describe(config));
  }
  RETURN_IF_ERROR(check_attention(config));
  ASSIGN_OR_RETURN(const bool no_bias, get_bool(json, "no_bias", true));
  if (!no_bias) return invalid_argument("no_bias: false is not supported; supported: true");
  ASSIGN_OR_RETURN(const int64_t ratio, get_count(json, "expansion_ratio", 64, 4));
  c.intermediate_size = ratio * c.hidden_size;
  ASSIGN_OR_RETURN(const double clamp, get_double(config, "clip_qkv", 0));
  ASSIGN_OR_RETURN(const double scale, get_double(config, "softmax_scale", 0));
  if (!(clamp >= 0 && clamp < 1e6 && scale >= 0 && scale < 1e6)) {
    return invalid_argument("attn_config: must be clip_qkv and softmax_scale from 0 to 1e6");
  }
  c.qkv_clamp = static_cast<float>(clamp);
  c.attention_scale = static_cast<float>(scale);
  c.slopes = mpt_alibi_slopes(c.heads);
  return absl::OkStatus();
}

constexpr Family kMpt = {
    .tie_word_embeddings = true,
    .layer_norm = true,
    .norm_bias = false,
    .norm_eps = 1e-5,
    .activation = "gelu",
    .ffn_per_hidden = 4,
    .positions = 2048,
    // With alibi no position is learned, whatever learned_pos_emb says.
    .keys = {"attn_config", "expansion_ratio", "no_bias", "learned_pos_emb"},
    .names = {{{"d_model", "hidden_size"},
               {"n_layers", "num_hidden_layers"},
               {"n_heads", "num_attention_heads"},
               {"max_seq_len", "max_position_embeddings"},
               {"layer_norm_epsilon", "rms_norm_eps"}}},
    .refine = refine_mpt,
};

constexpr Architecture kRows[] = {
    {"MPTForCausalLM", build_mpt, kMpt},
    {"MptForCausalLM", build_mpt, kMpt},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::mpt
