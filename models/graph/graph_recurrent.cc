// SPDX-License-Identifier: Apache-2.0
// Builders of operators with a state block per sequence, and of related operators.
#include <utility>

#include "base/check.h"
#include "models/graph/graph.h"
#include "proto/attributes.h"

namespace lockstep {
namespace {

// Columns [begin, begin + count) of the tensor, read as one row of all its elements.
program::Piece flat_piece(const std::string& name, const std::vector<int64_t>& shape, int64_t begin,
                          int64_t count) {
  program::Piece piece;
  piece.set_source(name);
  for (const int64_t size : shape) piece.add_source_shape(size);
  piece.set_flat(true);
  piece.set_row_end(1);
  piece.set_col_begin(begin);
  piece.set_col_end(begin + count);
  return piece;
}

program::Attributes recurrence_attributes(RecurrenceAttrs attrs) {
  const std::vector<int32_t> key_head_of = neighbours_share(attrs.heads, attrs.key_heads);
  attrs.key_head_of = {key_head_of.data(), attrs.heads};
  return to_message(attrs);
}

}  // namespace

Value Graph::conv(Value x, const std::string& name, const ConvSpec& spec) {
  const AxisSize axis = info(x).axis;
  const int64_t channels = spec.channels == 0 ? axis.columns() : spec.channels;
  AxisSize taps = axis;  // A unit has all taps of a column.
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
                        const RecurrenceAttrs& spec) {
  return append_one({.op = Op::kDeltaRule,
                     .inputs = {q.id, k.id, v.id, decay.id, rate.id},
                     .attributes = recurrence_attributes(spec)},
                    {.name = scoped("delta_rule"), .axis = {Axis::kHeads, spec.heads, spec.v_dim}});
}

int Graph::add_flat(const std::string& name, program::Role role, AxisSize cols,
                    const std::vector<int64_t>& shape) {
  return add_parameter({.name = name,
                        .role = role,
                        .rows = kOneRow,
                        .cols = cols,
                        .pieces = {flat_piece(name, shape, 0, cols.columns())}});
}

Value Graph::decay(Value x, const std::string& name) {
  Node node{.op = Op::kDecay, .inputs = {x.id}};
  node.parameters = {add_vector(scoped(name), program::NORM, info(x).axis)};
  return append_one(std::move(node),
                    {.name = scoped(name), .rows = info(x).rows, .axis = info(x).axis});
}

Value Graph::biased(Value x, const std::string& name, const std::vector<int64_t>& shape) {
  const int bias = shape.empty() ? add_vector(scoped(name), program::BIAS, info(x).axis)
                                 : add_flat(scoped(name), program::BIAS, info(x).axis, shape);
  Node& linear = nodes_[info(x).node];
  LOCKSTEP_CHECK(linear.op == Op::kLinear && linear.parameters.size() == 1);
  linear.parameters.push_back(bias);
  return x;
}

Value Graph::recurrence(Value q, Value k, Value v, Value decay,
                        const std::optional<LowRank>& change, const RecurrenceAttrs& spec) {
  Node node{.op = Op::kRecurrence,
            .inputs = {q.id, k.id, v.id, decay.id},
            .attributes = recurrence_attributes(spec)};
  if (change.has_value()) {
    node.inputs.push_back(change->a.id);
    node.inputs.push_back(change->b.id);
  }
  return append_one(std::move(node),
                    {.name = scoped("recurrence"), .axis = {Axis::kHeads, spec.heads, spec.v_dim}});
}

Value Graph::broadcast(const std::string& name, AxisSize axis, const std::vector<int64_t>& shape) {
  Node node{.op = Op::kBroadcast};
  node.parameters = {add_flat(scoped(name), program::NORM, axis, shape)};
  return append_one(std::move(node), {.name = scoped(name), .axis = axis});
}

}  // namespace lockstep
