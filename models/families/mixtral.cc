// SPDX-License-Identifier: Apache-2.0
// Mixtral: Mistral's attention; the weights of the chosen experts add up to 1.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::mixtral {
namespace {

LanguageModel mixtral(Keys& keys) {
  Llama m(keys);
  m.attention.windows = windows_of_all(keys, m.sizes.layers, 0);
  const Mixture experts = read_mixture(keys, m.sizes, m.mlp, "num_local_experts",
                                       {.count = 8, .chosen = 2, .always_renormalised = true});
  return m.model(experts, [=](Graph& g, Value x, int) {
    const Scope scope(g, "block_sparse_moe");
    const Routes routes = g.route(g.router(x, "gate", experts.count), routing(experts));
    return gated_experts(g, experts, x, routes, {"experts.*.w1", "experts.*.w3", "experts.*.w2"});
  });
}

constexpr Architecture kRows[] = {{"MixtralForCausalLM", mixtral}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::mixtral
