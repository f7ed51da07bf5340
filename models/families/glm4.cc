// SPDX-License-Identifier: Apache-2.0
// GLM-4 in transformers' form: neighbouring columns of the first half of each head turn; gate and
// up in one matrix; norms also behind attention and MLP. GLM-4.5: experts as DeepSeek-V3's; halves
// of the first half of each head turn.
#include "models/expert_blocks.h"
#include "models/families/families.h"

namespace lockstep::families::glm4 {
namespace {

Value stacked_glm4_mlp(Graph& g, const Config& c, Value x, int) {
  return stacked_mlp(g, c, x, "mlp.gate_up_proj", "mlp.down_proj");
}

void build_glm4(Graph& g, const Config& c) {
  build_layers(g, c,
               {.mlp = stacked_glm4_mlp,
                .attention_out_norm = "post_self_attn_layernorm",
                .mlp_out_norm = "post_mlp_layernorm"});
}

void build_glm4_moe(Graph& g, const Config& c) { build_layers(g, c, {.mlp = biased_experts}); }

constexpr Architecture kRows[] = {
    {"Glm4ForCausalLM",
     build_glm4,
     {.norm_eps = 1e-5,
      .partial_rotary = 0.5,
      .rope_interleaved = true,
      .kv_heads = 2,
      .head_dim = 128,
      .keys = {"use_qkv_bias"},
      .names = {{{"attention_bias", "use_qkv_bias"}}}}},
    {"Glm4MoeForCausalLM",
     build_glm4_moe,
     {.qk_norm = kHeadNorms,
      .norm_eps = 1e-5,
      .partial_rotary = 0.5,
      .kv_heads = 8,
      .keys = {"use_qkv_bias", "use_qk_norm", "num_nextn_predict_layers", "num_mtp_layers"},
      .names = {{{"attention_bias", "use_qkv_bias"}}},
      .experts = {.count_key = "n_routed_experts",
                  .count = 128,
                  .chosen = 8,
                  .size = 1408,
                  .renormalised = true,
                  .grouped = true}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::glm4
