// SPDX-License-Identifier: Apache-2.0
// Builders of operators that keep something of every sequence in a state block, and what goes with
// them.
#include <utility>

#include "base/check.h"
#include "models/graph.h"

namespace lockstep {
namespace {

// Columns [begin, begin + count) of the tensor, read as one row of all its elements.
program::Piece flat_piece(const std::string& name, std::initializer_list<int64_t> shape,
                          int64_t begin, int64_t count) {
  program::Piece piece;
  piece.set_source(name);
  for (const int64_t size : shape) piece.add_source_shape(size);
  piece.set_flat(true);
  piece.set_row_end(1);
  piece.set_col_begin(begin);
  piece.set_col_end(begin + count);
  return piece;
}

}  // namespace

Value Graph::conv(Value x, const std::string& name, const ConvSpec& spec) {
  const AxisSize axis = info(x).axis;
  const int64_t channels = spec.channels == 0 ? axis.columns() : spec.channels;
  AxisSize taps = axis;  // Those of a column together.
  taps.unit *= spec.taps;
  const std::string weight = scoped(name) + ".weight", bias = scoped(name) + ".bias";
  Node node{.op = Op::kConv, .inputs = {x.id}};
  node.parameters = {
      add_parameter({.name = weight,
                     .role = program::NORM,
                     .rows = kOneRow,
                     .cols = taps,
                     .pieces = {flat_piece(weight, {channels, 1, spec.taps}, spec.begin * spec.taps,
                                           taps.columns())}})};
  if (spec.bias) {
    node.parameters.push_back(
        add_parameter({.name = bias,
                       .role = program::BIAS,
                       .rows = kOneRow,
                       .cols = axis,
                       .pieces = {flat_piece(bias, {channels}, spec.begin, axis.columns())}}));
  }
  node.attributes.mutable_conv()->set_taps(spec.taps);
  return append_one(std::move(node), {.name = info(x).name + ".conv", .axis = axis});
}

Value Graph::delta_rule(Value q, Value k, Value v, Value decay, Value rate,
                        const DeltaRuleSpec& spec) {
  LOCKSTEP_CHECK(spec.key_heads > 0 && spec.heads % spec.key_heads == 0);
  Node node{.op = Op::kDeltaRule, .inputs = {q.id, k.id, v.id, decay.id, rate.id}};
  program::RecurrenceAttrs& attributes = *node.attributes.mutable_recurrence();
  attributes.set_heads(spec.heads);
  attributes.set_key_heads(spec.key_heads);
  attributes.set_k_dim(spec.k_dim);
  attributes.set_v_dim(spec.v_dim);
  attributes.set_scale(spec.scale);
  attributes.set_eps(spec.eps);
  const int64_t group = spec.heads / spec.key_heads;
  for (int64_t head = 0; head < spec.heads; ++head) {
    attributes.add_key_head_of(static_cast<int32_t>(head / group));
  }
  return append_one(std::move(node),
                    {.name = scoped("delta_rule"), .axis = {Axis::kHeads, spec.heads, spec.v_dim}});
}

Value Graph::decay(Value x, const std::string& name) {
  Node node{.op = Op::kDecay, .inputs = {x.id}};
  node.parameters = {add_vector(scoped(name), program::NORM, info(x).axis)};
  return append_one(std::move(node),
                    {.name = scoped(name), .rows = info(x).rows, .axis = info(x).axis});
}

Value Graph::biased(Value x, const std::string& name) {
  const int bias = add_vector(scoped(name), program::BIAS, info(x).axis);
  Node& linear = nodes_[info(x).node];
  LOCKSTEP_CHECK(linear.op == Op::kLinear && linear.parameters.size() == 1);
  linear.parameters.push_back(bias);
  return x;
}

}  // namespace lockstep
