// SPDX-License-Identifier: Apache-2.0
// GLM-4 in transformers' form: neighbouring columns of the first half of each head turn; gate and
// up in one matrix; norms also behind attention and MLP. GLM-4.5 with experts: Llama's blocks, of
// which the first layers' are dense; halves of the first half of each head turn.
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

Value mlp(Graph& g, const Config& c, Value x, int layer) {
  if (!c.experts.in_layer[static_cast<size_t>(layer)]) return gated_mlp(g, c, x, layer);
  const Scope scope(g, "mlp");
  const Routes routes = g.route(g.router(x, "gate", c.experts.count),
                                {.chosen = c.experts.chosen,
                                 .sigmoid = true,
                                 .groups = c.experts.groups,
                                 .chosen_groups = c.experts.chosen_groups,
                                 .best_two = c.experts.groups > 1,
                                 .renormalised = c.experts.renormalised,
                                 .scale = c.experts.scale},
                                "gate.e_score_correction_bias");
  const Value routed = gated_experts(
      g, c, x, routes, {"experts.*.gate_proj", "experts.*.up_proj", "experts.*.down_proj"});
  return g.add(routed, shared_expert(g, c, x, "shared_experts"));
}

void build_glm4_moe(Graph& g, const Config& c) { build_layers(g, c, {.mlp = mlp}); }

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
