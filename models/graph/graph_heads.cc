// SPDX-License-Identifier: Apache-2.0
// Builders of operators that process each head separately.
#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "models/graph/graph.h"
#include "proto/attributes.h"

namespace lockstep {

Value Graph::head_linear(Value x, const std::string& name, const HeadLinearSpec& spec) {
  const AxisSize matrices = {Axis::kHeads, spec.heads, spec.in_dim * spec.out_dim};
  const int64_t rows = spec.transposed ? spec.out_dim : spec.in_dim;
  const int64_t cols = spec.transposed ? spec.in_dim : spec.out_dim;
  LOCKSTEP_CHECK(spec.row_begin + rows <= spec.rows);
  const std::string source = scoped(name) + ".weight";
  Parameter parameter{.name = fmt::format("{} ({})", source, spec.row_begin),
                      .role = program::NORM,
                      .rows = kOneRow,
                      .cols = matrices};
  for (int64_t head = 0; head < spec.heads; ++head) {
    program::Piece& piece = parameter.pieces.emplace_back();
    const int64_t begin = (head * spec.rows + spec.row_begin) * cols;
    piece.set_source(source);
    piece.add_source_shape(spec.heads * spec.rows);
    piece.add_source_shape(cols);
    piece.set_flat(true);
    piece.set_row_end(1);
    piece.set_col_begin(begin);
    piece.set_col_end(begin + matrices.unit);
  }
  Node node{.op = Op::kHeadLinear, .inputs = {x.id}};
  const std::string made = parameter.name;
  node.parameters = {add_parameter(std::move(parameter))};
  node.attributes = to_message(
      HeadsAttrs{.heads = spec.heads, .in_dim = spec.in_dim, .transposed = spec.transposed});
  return append_one(std::move(node),
                    {.name = made, .axis = {Axis::kHeads, spec.heads, spec.out_dim}});
}

Value Graph::join_heads(Value x, Value y, AxisSize out) {
  LOCKSTEP_CHECK(info(x).axis.columns() + info(y).axis.columns() == out.columns());
  return append_one({.op = Op::kJoinHeads,
                     .inputs = {x.id, y.id},
                     .attributes = to_message(HeadsAttrs{.heads = out.count})},
                    {.name = scoped("join_heads"), .axis = out});
}

Value Graph::head_dot(Value x, Value y, Value weight, Value v) {
  return append_one({.op = Op::kHeadDot,
                     .inputs = {x.id, y.id, weight.id, v.id},
                     .attributes = to_message(HeadsAttrs{.heads = info(v).axis.count})},
                    {.name = scoped("head_dot"), .axis = info(v).axis});
}

Value Graph::expand_heads(Value x, int64_t dim) {
  AxisSize axis = info(x).axis;
  LOCKSTEP_CHECK(axis.unit == 1);
  axis.unit = dim;
  return append_one({.op = Op::kExpandHeads,
                     .inputs = {x.id},
                     .attributes = to_message(HeadsAttrs{.heads = axis.count, .out_dim = dim})},
                    {.name = info(x).name + ".heads", .axis = axis});
}

}  // namespace lockstep
