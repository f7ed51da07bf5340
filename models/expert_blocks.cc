// SPDX-License-Identifier: Apache-2.0
#include "models/expert_blocks.h"

namespace lockstep {

Value gated_experts(Graph& g, const Config& c, Value x, const Routes& routes,
                    const ExpertNames& names) {
  const AxisSize size = {Axis::kFfn, c.experts.size, 1};
  const auto linear = [&](Value from, const char* name, AxisSize out) {
    return g.expert_linear(from, routes, {.count = c.experts.count, .name = name}, out);
  };
  const Value gate = g.map(linear(x, names.gate, size), c.activation),
              up = linear(x, names.up, size);
  return g.combine(linear(g.mul(gate, up), names.down, hidden(c)), routes);
}

// One expert of one, always chosen.
Value gated_shared_expert(Graph& g, const Config& c, Value x, const char* scope, const char* gate) {
  const Routes only = g.route(g.router(x, gate, 1), {.chosen = 1, .sigmoid = true});
  const AxisSize size = {Axis::kFfn, c.experts.shared_size, 1};
  const Scope shared(g, scope);
  const Value y =
      g.mul(g.map(g.linear(x, "gate_proj", size), c.activation), g.linear(x, "up_proj", size));
  return g.combine(g.linear(y, "down_proj", hidden(c)), only);
}

}  // namespace lockstep
