// SPDX-License-Identifier: Apache-2.0
// Builders for mixtures of experts.
#include <utility>

#include "models/graph/expert_pieces.h"
#include "models/graph/graph.h"
#include "proto/attributes.h"

namespace lockstep {

Value Graph::router(Value x, const std::string& name, int64_t experts, bool bias) {
  return project(x, name, {Axis::kNone, experts, 1}, bias, program::ROUTER);
}

int Graph::routes_of(int64_t chosen) {
  if (chosen == 1) return kTokenRows;
  for (size_t i = kOutputRows + 1; i < row_domains.size(); ++i) {
    if (row_domains[i].rows_each() == chosen) return static_cast<int>(i);
  }
  program::RowDomain& domain = row_domains.emplace_back();
  domain.set_name("routes");
  domain.set_of(program::TOKENS);
  domain.set_rows_each(chosen);
  return static_cast<int>(row_domains.size()) - 1;
}

Routes Graph::route(Value scores, RouteAttrs attrs, const std::string& bias) {
  Node node{.op = Op::kRoute, .inputs = {scores.id}};
  if (!bias.empty()) {
    node.parameters = {add_vector(scoped(bias), program::BIAS, info(scores).axis)};
  }
  if (attrs.groups == 0) attrs.groups = attrs.chosen_groups = 1;
  if (attrs.scale == 0) attrs.scale = 1;
  node.attributes = to_message(attrs);
  const int rows = routes_of(attrs.chosen);
  const AxisSize one = {Axis::kNone, 1, 1};
  const std::vector<Value> made =
      append(std::move(node),
             {{.name = scoped("route.ids"), .dtype = DType::kI32, .rows = rows, .axis = one},
              {.name = scoped("route.weights"), .dtype = DType::kF32, .rows = rows, .axis = one}});
  return {.ids = made[0], .weights = made[1]};
}

Value Graph::expert_linear(Value x, const Routes& routes, const Experts& experts, AxisSize out,
                           bool bias) {
  Node node{.op = Op::kExpertLinear, .inputs = {x.id, routes.ids.id}};
  const std::string name = scoped(experts.name);
  node.parameters = {add_parameter(expert_weight(name, experts, out, info(x).axis))};
  if (bias) node.parameters.push_back(add_parameter(expert_bias(name, experts, out)));
  node.attributes.mutable_expert()->set_experts(experts.count);
  return append_one(std::move(node), {.name = name, .rows = info(routes.ids).rows, .axis = out});
}

Value Graph::expert_scale(Value x, const Routes& routes, const std::string& name, int64_t experts) {
  Node node{.op = Op::kExpertScale, .inputs = {x.id, routes.ids.id}};
  node.parameters = {add_vector(scoped(name), program::NORM, {Axis::kNone, experts, 1})};
  return append_one(std::move(node),
                    {.name = scoped(name), .rows = info(x).rows, .axis = info(x).axis});
}

Value Graph::combine(Value x, const Routes& routes) {
  return append_one({.op = Op::kCombine, .inputs = {x.id, routes.weights.id}},
                    {.name = scoped("combine"), .axis = info(x).axis});
}

}  // namespace lockstep
