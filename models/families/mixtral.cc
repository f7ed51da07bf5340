// SPDX-License-Identifier: Apache-2.0
// Mixtral: Mistral's attention; the weights of the chosen experts add up to 1.
#include "models/expert_blocks.h"
#include "models/families/families.h"

namespace lockstep::families::mixtral {
namespace {

Value experts(Graph& g, const Config& c, Value x, int) {
  const Scope scope(g, "block_sparse_moe");
  const Routes routes = g.route(g.router(x, "gate", c.experts.count),
                                {.chosen = c.experts.chosen, .renormalised = true});
  return gated_experts(g, c, x, routes, {"experts.*.w1", "experts.*.w3", "experts.*.w2"});
}

void build_mixtral(Graph& g, const Config& c) { build_layers(g, c, {.mlp = experts}); }

constexpr Architecture kRows[] = {
    {"MixtralForCausalLM",
     build_mixtral,
     {.window = WindowRule::kAllLayers,
      .default_window = 0,
      .keys = {"sliding_window"},
      .experts = {.count_key = "num_local_experts",
                  .count = 8,
                  .chosen = 2,
                  .always_renormalised = true}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::mixtral
