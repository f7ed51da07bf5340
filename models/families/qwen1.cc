// SPDX-License-Identifier: Apache-2.0
// The first Qwen: Llama's maths with q, k and v in one matrix and the activation on the second of
// the MLP's two. Beyond seq_length queries are scaled by position (log-n) and turned by frequencies
// that depend on the prompt's length (dynamic NTK).
#include "base/numbers/math.h"
#include "base/status.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::qwen1 {
namespace {

constexpr int64_t kPositions = 8192;

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return stacked_attention(g, c, x, layer, "attn.c_attn", "attn.c_proj");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  const Value up = g.linear(x, "mlp.w1", ffn(c));
  const Value gate = g.map(g.linear(x, "mlp.w2", ffn(c)), c.activation);
  return g.linear(g.mul(up, gate), "mlp.c_proj", hidden(c));
}

void build_qwen1(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "transformer.wte",
                .layers = "transformer.h",
                .attention_norm = "ln_1",
                .mlp_norm = "ln_2",
                .norm = "transformer.ln_f"});
}

absl::Status check_qwen1(const Json& json) {
  const OnlyValue only[] = {{"rotary_pct", 1.0}, {"no_bias", true}, {"scale_attn_weights", true}};
  return check_only(json, only);
}

absl::Status refine_qwen1(const Json& json, Config& c) {
  if (c.intermediate_size % 2 != 0) {
    return invalid_argument("intermediate_size: {} is not twice a width; wanted an even number",
                            c.intermediate_size);
  }
  c.intermediate_size /= 2;
  ASSIGN_OR_RETURN(const bool ntk, get_bool(json, "use_dynamic_ntk", true));
  ASSIGN_OR_RETURN(const bool log_n, get_bool(json, "use_logn_attn", true));
  ASSIGN_OR_RETURN(const int64_t trained, get_count(json, "seq_length", 1 << 24, kPositions));
  if (ntk) c.ntk_length = trained;
  if (log_n && trained > 1) {
    const double factor = 1 / exact_log(static_cast<double>(trained));
    c.query_scales = {.length = trained, .log_factor = static_cast<float>(factor)};
  }
  return absl::OkStatus();
}

constexpr Architecture kRows[] = {
    {"QWenLMHeadModel",
     build_qwen1,
     {.qkv_bias = true,
      .positions = kPositions,
      .keys = {"seq_length", "use_dynamic_ntk", "use_logn_attn", "rotary_pct", "no_bias",
               "scale_attn_weights"},
      .names = {{{"layer_norm_epsilon", "rms_norm_eps"},
                 {"rotary_emb_base", "rope_theta"},
                 {"kv_channels", "head_dim"}}},
      .check = check_qwen1,
      .refine = refine_qwen1}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::qwen1
