// SPDX-License-Identifier: Apache-2.0
// Mistral 4 (Mistral Small 4): DeepSeek-V3's latent attention with queries scaled by position;
// experts, chosen by softmax and stored as stacks, and shared experts for every token.
#include "models/blocks/latent.h"
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::mistral4 {
namespace {

LanguageModel mistral4(Keys& keys) {
  keys.rename("qk_rope_head_dim", "head_dim", /*wins=*/true);
  keys.defaults(R"({"head_dim": 64, "kv_lora_rank": 256, "qk_nope_head_dim": 64,
      "v_head_dim": 128, "first_k_dense_replace": 0, "rope_parameters": {
      "type": "yarn", "rope_theta": 10000.0, "factor": 128.0, "beta_fast": 32.0,
      "beta_slow": 1.0, "original_max_position_embeddings": 8192, "mscale_all_dim": 1.0,
      "mscale": 1.0, "llama_4_scaling_beta": 0.1}})");
  keys.only("rope_interleave", true);
  keys.ignore("llama_4_scaling_beta");  // Only the value in rope_parameters is used.
  Llama m(keys, {.sizes = {.positions = 1048576},
                 .rope = {.interleaved = true, .scales_queries = true, .whole_heads = true}});
  m.attention.set_bias(keys.flag("attention_bias", false));
  const Latent latent = read_latent(keys, m.attention);
  const Mixture experts = read_mixture(
      keys, m.sizes, m.mlp, "n_routed_experts",
      {.count = 128, .chosen = 4, .size = 2048, .renormalised = true, .grouped = true});
  RouteAttrs choice = routing(experts);
  choice.best_two = experts.groups > 1;
  LanguageModel d = m.model(
      latent_attention(m.attention, latent), sparse(experts, m.mlp, [=](Graph& g, Value x, int) {
        const Routes routes = g.route(g.router(x, "gate", experts.count), choice);
        const Value routed = g.combine(stacked_experts(g, experts, x, routes), routes);
        return g.add(routed, scoped_mlp(g, experts.shared(), x, "shared_experts"));
      }));
  d.mixture = experts;
  return d;
}

constexpr Architecture kRows[] = {{"Mistral4ForCausalLM", mistral4}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::mistral4
