// SPDX-License-Identifier: Apache-2.0
// Hunyuan's dense models: Llama's blocks, with norms of q and k within each head once they are
// turned.
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::hunyuan {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  auto [q, k, v] = separate_qkv(g, c, x, "self_attn");
  const Scope scope(g, "self_attn");
  const HeadNorm norm = {.eps = c.norm_eps, .head_dim = c.head_dim};
  q = g.head_norm(g.rope(q, c.rope), "query_layernorm", norm);
  k = g.head_norm(g.rope(k, c.rope), "key_layernorm", norm);
  return g.linear(g.attention(q, k, v, attention_spec(c, layer)), "o_proj", hidden(c),
                  c.output_bias);
}

void build_hunyuan(Graph& g, const Config& c) { build_layers(g, c, {.attention = attention}); }

absl::Status check_hunyuan(const Json& json) {
  const OnlyValue only[] = {{"use_qk_norm", true},
                            {"use_rotary_pos_emb", true},
                            {"norm_type", "rms"},
                            {"num_experts", 1}};
  return check_only(json, only);
}

constexpr Architecture kRows[] = {
    {"HunYuanDenseV1ForCausalLM",
     build_hunyuan,
     {.norm_eps = 1e-5,
      .rope_fixed_alpha = true,
      .positions = 2048,
      // Those that check_hunyuan has not are of other tasks, or ids that no one looks for.
      .keys = {"attention_bias", "use_qk_norm", "use_rotary_pos_emb", "norm_type", "num_experts",
               "org_vocab_size", "eod_token_id", "pad_id", "text_start_id", "text_end_id",
               "im_start_id", "im_end_id", "im_newline_id", "mask_init_id", "cla_share_factor",
               "class_num", "dense_list", "pool_type"},
      .names = {{{"attention_head_dim", "head_dim"}}},
      .check = check_hunyuan}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::hunyuan
