// SPDX-License-Identifier: Apache-2.0
// How a weight of a program is put together from rectangles of tensors: pieces one below the other,
// for BIAS and NORM side by side, each as stored or transposed. Of a paired weight the rows
// (columns) of both halves then alternate.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "checkpoint/rectangle.h"
#include "proto/program.pb.h"

namespace lockstep {

// Rows and columns of a tensor seen as a matrix: cols is the last dimension, one dimension is one
// row, a stack of matrices has them one below the other.
struct MatrixShape {
  int64_t rows = 0;
  int64_t cols = 0;
};

// The matrix that a piece's source is expected to be; an error where its shape makes no sense.
absl::StatusOr<MatrixShape> source_matrix(const program::Piece& piece);

// Whether the rectangles are within their sources and make up exactly [rows, cols] of the weight.
absl::Status check_recipe(const program::Weight& weight);

// Whether pieces follow each other along columns, in the one row of a BIAS or a NORM.
bool side_by_side(const program::Weight& weight);

// Rows (of a BIAS or a NORM: columns) `begin` to `end` of a weight's pieces as they follow each
// other: the i-th of them is number first + i * step of those that were asked for.
struct StackedRows {
  int64_t begin;
  int64_t end;
  int64_t first;
  int64_t step;
};

// What rows (columns) [begin, end) of the weight are: of a paired one some of each half.
std::vector<StackedRows> stacked_rows(const program::Weight& weight, int64_t begin, int64_t end);

// What one piece adds to some rows of a weight.
struct Part {
  const program::Piece* piece;
  Rectangle source;  // Of the source as stored.
  int64_t row;       // Where its corner goes, counted from the first of the rows asked for.
  int64_t col;
  int64_t row_step;  // From one of its rows to the next.
  int64_t col_step;
};

// The parts that make up rows [row_begin, row_end) of a weight that passed check_recipe. They point
// into it.
std::vector<Part> parts_of(const program::Weight& weight, int64_t row_begin, int64_t row_end);

}  // namespace lockstep
