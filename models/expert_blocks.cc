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

Value stacked_experts(Graph& g, const Config& c, Value x, const Routes& routes, bool transposed) {
  const AxisSize size = {Axis::kFfn, c.experts.size, 1};
  Experts gate_up{.count = c.experts.count,
                  .name = "experts.gate_up_proj",
                  .stack_rows = 2 * c.experts.size,
                  .transposed = transposed};
  const Value gate = g.map(g.expert_linear(x, routes, gate_up, size), c.activation);
  gate_up.row_begin = c.experts.size;
  const Value up = g.expert_linear(x, routes, gate_up, size);
  const Experts down{.count = c.experts.count,
                     .name = "experts.down_proj",
                     .stack_rows = c.hidden_size,
                     .transposed = transposed};
  return g.expert_linear(g.mul(gate, up), routes, down, hidden(c));
}

Value scoped_mlp(Graph& g, const Config& c, Value x, const char* scope, int64_t width) {
  const AxisSize size = {Axis::kFfn, width, 1};
  const Scope scoped(g, scope);
  const Value y =
      g.mul(g.map(g.linear(x, "gate_proj", size), c.activation), g.linear(x, "up_proj", size));
  return g.linear(y, "down_proj", hidden(c));
}

Value shared_expert(Graph& g, const Config& c, Value x, const char* scope) {
  return scoped_mlp(g, c, x, scope, c.experts.shared_size);
}

// One expert of one, always chosen.
Value gated_shared_expert(Graph& g, const Config& c, Value x, const char* scope, const char* gate) {
  const Routes only = g.route(g.router(x, gate, 1), {.chosen = 1, .sigmoid = true});
  return g.combine(shared_expert(g, c, x, scope), only);
}

RouteSpec with_config(RouteSpec routing, const Config& c) {
  routing.chosen = c.experts.chosen;
  routing.groups = c.experts.groups;
  routing.chosen_groups = c.experts.chosen_groups;
  routing.renormalised = c.experts.renormalised;
  routing.scale = c.experts.scale;
  return routing;
}

RouteSpec biased_routing(const Config& c) {
  return with_config({.sigmoid = true, .best_two = c.experts.groups > 1}, c);
}

Value grouped_experts(Graph& g, const Config& c, Value x, int layer, RouteSpec routing,
                      const std::string& bias) {
  if (!c.experts.in_layer[static_cast<size_t>(layer)]) return old_gated_mlp(g, c, x, layer);
  const Scope scope(g, "mlp");
  const Routes routes =
      g.route(g.router(x, "gate", c.experts.count), with_config(routing, c), bias);
  const Value routed = gated_experts(
      g, c, x, routes, {"experts.*.gate_proj", "experts.*.up_proj", "experts.*.down_proj"});
  return g.add(routed, shared_expert(g, c, x, "shared_experts"));
}

Value old_biased_experts(Graph& g, const Config& c, Value x, int layer) {
  return grouped_experts(g, c, x, layer, biased_routing(c), "gate.e_score_correction_bias");
}

Value old_qwen_experts(Graph& g, const Config& c, Value x, int layer) {
  if (!c.experts.in_layer[static_cast<size_t>(layer)]) return old_gated_mlp(g, c, x, layer);
  const Scope scope(g, "mlp");
  const Routes routes =
      g.route(g.router(x, "gate", c.experts.count),
              {.chosen = c.experts.chosen, .renormalised = c.experts.renormalised});
  const Value routed = gated_experts(
      g, c, x, routes, {"experts.*.gate_proj", "experts.*.up_proj", "experts.*.down_proj"});
  if (c.experts.shared_size == 0) return routed;
  return g.add(routed, gated_shared_expert(g, c, x, "shared_expert", "shared_expert_gate"));
}

}  // namespace lockstep
