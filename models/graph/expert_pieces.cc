// SPDX-License-Identifier: Apache-2.0
// Makes one piece per expert, in order of their numbers.
#include "models/graph/expert_pieces.h"

#include <fmt/format.h>

#include "base/check.h"

namespace lockstep {
namespace {

// "experts.*.up" -> "experts.7.up".
std::string numbered(const std::string& name, int64_t expert) {
  const size_t star = name.find('*');
  LOCKSTEP_CHECK(star != std::string::npos);
  return name.substr(0, star) + std::to_string(expert) + name.substr(star + 1);
}

// The linear's first row in a matrix of the stack, if alternating rows are first grouped by linear.
int64_t first_row(const Experts& experts) {
  return experts.interleaved == 0 ? experts.row_begin
                                  : experts.row_begin * (experts.stack_rows / experts.interleaved);
}

void set_rectangle(program::Piece& piece, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  piece.set_row_begin(row);
  piece.set_row_end(row + rows);
  piece.set_col_begin(col);
  piece.set_col_end(col + cols);
}

void set_shape(program::Piece& piece, std::initializer_list<int64_t> shape) {
  for (const int64_t size : shape) piece.add_source_shape(size);
}

}  // namespace

Parameter expert_weight(const std::string& name, const Experts& experts, AxisSize out,
                        AxisSize in) {
  const bool stacked = experts.stack_rows > 0;
  Parameter parameter{.name = stacked ? name : name + ".weight",
                      .role = program::LINEAR_WEIGHT,
                      .rows = out,
                      .cols = in,
                      .matrices = experts.count};
  if (stacked && out.columns() != experts.stack_rows) {
    parameter.name += " (" + std::to_string(first_row(experts)) + ")";
  }
  const int64_t rows = out.columns(), cols = in.columns(), height = experts.stack_rows;
  const int64_t first = first_row(experts);
  LOCKSTEP_CHECK(experts.interleaved == 0 || experts.transposed);
  LOCKSTEP_CHECK(!stacked || (0 <= first && first + rows <= height));
  for (int64_t expert = 0; expert < experts.count; ++expert) {
    program::Piece& piece = parameter.pieces.emplace_back();
    if (!stacked) {
      piece.set_source(numbered(name, expert) + ".weight");
      set_shape(piece, {rows, cols});
      set_rectangle(piece, 0, rows, 0, cols);
      continue;
    }
    piece.set_source(name);
    piece.set_interleaved(experts.interleaved);
    if (experts.transposed) {
      piece.set_transpose(true);
      set_shape(piece, {experts.count, cols, height});
      set_rectangle(piece, expert * cols, cols, first, rows);
    } else {
      set_shape(piece, {experts.count, height, cols});
      set_rectangle(piece, expert * height + first, rows, 0, cols);
    }
  }
  return parameter;
}

Parameter expert_bias(const std::string& name, const Experts& experts, AxisSize out) {
  const bool stacked = experts.stack_rows > 0;
  const std::string source = name + (stacked ? "_bias" : ".bias");
  const bool part = stacked && out.columns() != experts.stack_rows;
  Parameter parameter{.name = part ? fmt::format("{} ({})", source, first_row(experts)) : source,
                      .role = program::BIAS,
                      .rows = {Axis::kNone, 1, 1},
                      .cols = out,
                      .matrices = experts.count};
  for (int64_t expert = 0; expert < experts.count; ++expert) {
    program::Piece& piece = parameter.pieces.emplace_back();
    if (stacked) {
      piece.set_source(source);
      set_shape(piece, {experts.count, experts.stack_rows});
      piece.set_interleaved(experts.interleaved);
      set_rectangle(piece, expert, 1, first_row(experts), out.columns());
    } else {
      piece.set_source(numbered(name, expert) + ".bias");
      set_shape(piece, {out.columns()});
      set_rectangle(piece, 0, 1, 0, out.columns());
    }
  }
  return parameter;
}

}  // namespace lockstep
