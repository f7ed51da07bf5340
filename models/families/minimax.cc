// SPDX-License-Identifier: Apache-2.0
// MiniMax M2: norms over all of q and of k, a part of each head rotated, experts by sigmoid scores
// with a bias only for the choice.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::minimax {
namespace {

LanguageModel minimax(Keys& keys) {
  keys.only("use_qk_norm use_routing_bias", true);
  keys.only("qk_norm_type", "per_layer");
  keys.only("scoring_func", "sigmoid");
  keys.only("shared_intermediate_size", 0);
  keys.only("layernorm_full_attention_beta layernorm_mlp_beta", 1.0);
  // For parts that no layer has: linear attention, a dense or shared MLP.
  keys.ignore("layernorm_linear_attention_beta mlp_intermediate_size shared_moe_mode");
  if (const Json& kinds = keys.json("attn_type_list"); kinds.is_array()) {
    for (const Json& kind : kinds) {
      if (kind == 1) continue;  // 1 is attention; other kinds are not supported.
      keys.fail("attn_type_list", "{} is not supported; supported: 1", describe(kind));
    }
  }
  Llama m(keys, {.sizes = {.kv_heads = 8, .head_dim = 128},
                 .rope = {.theta = 5000000, .part = 1, .reads_dim = true}});
  m.attention.norm_heads(keys, kNormOverAllHeads);
  const Mixture experts = read_mixture(keys, m.sizes, m.mlp, "num_local_experts",
                                       {.count = 256, .chosen = 8, .always_renormalised = true});
  return m.model(experts, [=](Graph& g, Value x, int) {
    const Scope scope(g, "block_sparse_moe");
    RouteAttrs spec = routing(experts);
    spec.sigmoid = true;
    const Routes routes =
        g.route(g.router(x, "gate", experts.count), spec, "e_score_correction_bias");
    return gated_experts(g, experts, x, routes, {"experts.*.w1", "experts.*.w3", "experts.*.w2"});
  });
}

constexpr Architecture kRows[] = {{"MiniMaxM2ForCausalLM", minimax}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::minimax
