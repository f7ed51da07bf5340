// SPDX-License-Identifier: Apache-2.0
// Qwen2-MoE and Qwen3-MoE: the attention of Qwen2 and Qwen3; some layers may have a dense MLP;
// Qwen2 has a shared expert beside the chosen ones.
#include "models/qwen_moe.h"

#include "models/expert_blocks.h"

namespace lockstep {
namespace {

Value mlp(Graph& g, const Config& c, Value x, int layer) {
  if (!c.experts.in_layer[static_cast<size_t>(layer)]) return gated_mlp(g, c, x, layer);
  const Scope scope(g, "mlp");
  const Routes routes =
      g.route(g.router(x, "gate", c.experts.count),
              {.chosen = c.experts.chosen, .renormalised = c.experts.renormalised});
  const Value routed = gated_experts(
      g, c, x, routes, {"experts.*.gate_proj", "experts.*.up_proj", "experts.*.down_proj"});
  if (c.experts.shared_size == 0) return routed;
  return g.add(routed, gated_shared_expert(g, c, x, "shared_expert", "shared_expert_gate"));
}

}  // namespace

void build_qwen_moe(Graph& g, const Config& c) { build_layers(g, c, {.mlp = mlp}); }

}  // namespace lockstep
