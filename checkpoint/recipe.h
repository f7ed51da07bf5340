// SPDX-License-Identifier: Apache-2.0
// How a weight is assembled from rectangles of tensors: pieces are stacked vertically, or side by
// side for BIAS and NORM, each as stored or transposed. In a paired weight, the rows (columns) of
// the two halves then alternate.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "checkpoint/rectangle.h"
#include "proto/program.pb.h"

namespace lockstep {

// The rows and columns of a tensor seen as a matrix: cols is the last dimension; a vector is one
// row; a stack of matrices is one matrix, stacked vertically.
struct MatrixShape {
  int64_t rows = 0;
  int64_t cols = 0;
};

// The expected shape of a piece's source as a matrix; an error if its shape is not valid.
absl::StatusOr<MatrixShape> source_matrix(const program::Piece& piece);

// Checks that the rectangles are inside their sources and make up exactly the weight [rows, cols].
absl::Status check_recipe(const program::Weight& weight);

// Whether pieces follow each other along columns, as in a BIAS or a NORM: these have one row.
bool side_by_side(const program::Weight& weight);

// Rows (for BIAS and NORM: columns) [begin, end) of a weight's stacked pieces. Stacked row begin +
// i is requested row first + i * step.
struct StackedRows {
  int64_t begin;
  int64_t end;
  int64_t first;
  int64_t step;
};

// The stacked rows that make up rows (columns) [begin, end) of the weight. For a paired weight,
// these are rows of both halves.
std::vector<StackedRows> stacked_rows(const program::Weight& weight, int64_t begin, int64_t end);

// The contribution of one piece to some rows of a weight.
struct Part {
  const program::Piece* piece;
  Rectangle source;  // The part's rectangle in the source as stored.
  int64_t row;       // The part's first row in the weight, counted from the first requested row.
  int64_t col;       // The part's first column in the weight.
  int64_t row_step;  // The distance in the weight from one row of the part to the next.
  int64_t col_step;
};

// The parts that make up rows [row_begin, row_end) of a weight that passed check_recipe. They point
// into `weight`.
std::vector<Part> parts_of(const program::Weight& weight, int64_t row_begin, int64_t row_end);

}  // namespace lockstep
