// SPDX-License-Identifier: Apache-2.0
// MiniMax M2: norms over all of q and of k, a part of each head turns, experts by sigmoid scores
// with a bias for the choice alone.
#include "models/config_keys.h"
#include "models/expert_blocks.h"
#include "models/families/families.h"

namespace lockstep::families::minimax {
namespace {

Value experts(Graph& g, const Config& c, Value x, int) {
  const Scope scope(g, "block_sparse_moe");
  const Routes routes = g.route(g.router(x, "gate", c.experts.count),
                                {.chosen = c.experts.chosen, .sigmoid = true, .renormalised = true},
                                "e_score_correction_bias");
  return gated_experts(g, c, x, routes, {"experts.*.w1", "experts.*.w3", "experts.*.w2"});
}

void build_minimax(Graph& g, const Config& c) { build_layers(g, c, {.mlp = experts}); }

absl::Status check_minimax(const Json& json) {
  const OnlyValue only[] = {{"qk_norm_type", "per_layer"},   {"scoring_func", "sigmoid"},
                            {"shared_intermediate_size", 0}, {"use_qk_norm", true},
                            {"use_routing_bias", true},      {"layernorm_full_attention_beta", 1.0},
                            {"layernorm_mlp_beta", 1.0}};
  const auto kinds = json.find("attn_type_list");  // 1: attention; others are not.
  if (kinds != json.end() && kinds->is_array()) {
    for (const Json& kind : *kinds) {
      if (kind == 1) continue;
      return invalid_argument("attn_type_list: {} is not supported; supported: 1", describe(kind));
    }
  }
  return check_only(json, only);
}

constexpr Architecture kRows[] = {
    {"MiniMaxM2ForCausalLM",
     build_minimax,
     {.qk_norm = kNormOverAllHeads,
      .rope_theta = 5000000,
      .partial_rotary = 1,
      .kv_heads = 8,
      .head_dim = 128,
      .defaults = R"({"use_qk_norm": true})",
      .keys = {"rotary_dim", "use_qk_norm", "qk_norm_type", "scoring_func", "use_routing_bias",
               "attn_type_list", "layernorm_full_attention_beta", "layernorm_mlp_beta",
               // Of what no layer has: linear attention, a dense or shared MLP.
               "layernorm_linear_attention_beta", "mlp_intermediate_size",
               "shared_intermediate_size", "shared_moe_mode"},
      .experts = {.count_key = "num_local_experts",
                  .count = 256,
                  .chosen = 8,
                  .always_renormalised = true},
      .check = check_minimax}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::minimax
