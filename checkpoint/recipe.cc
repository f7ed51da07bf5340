// SPDX-License-Identifier: Apache-2.0
// The arithmetic of pieces. A program comes from another process: nothing of it is trusted before
// check_recipe.
#include "checkpoint/recipe.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

// Of a tensor or a weight: far above any and far below where sums and bytes would overflow.
constexpr int64_t kMostElements = int64_t{1} << 48;

bool side_by_side(const program::Weight& weight) {
  return weight.role() == program::BIAS || weight.role() == program::NORM;
}

Rectangle rectangle_of(const program::Piece& piece) {
  return {piece.row_begin(), piece.row_end(), piece.col_begin(), piece.col_end()};
}

// Of the piece in the weight, so after transposing.
MatrixShape placed_shape(const program::Piece& piece) {
  const Rectangle source = rectangle_of(piece);
  return piece.transpose() ? MatrixShape{source.cols(), source.rows()}
                           : MatrixShape{source.rows(), source.cols()};
}

}  // namespace

absl::StatusOr<MatrixShape> source_matrix(const program::Piece& piece) {
  MatrixShape matrix{.rows = 1, .cols = 1};
  int64_t elements = 1;
  for (const int64_t size : piece.source_shape()) {
    matrix.rows = elements;
    matrix.cols = size;
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements) || elements > kMostElements) {
      return invalid_argument("{}: the program asks for a shape that no tensor has (dimension {})",
                              printable(piece.source()), size);
    }
  }
  return piece.flat() ? MatrixShape{.rows = 1, .cols = elements} : matrix;
}

absl::Status check_recipe(const program::Weight& weight) {
  int64_t elements = 0;
  if (weight.rows() < 0 || weight.cols() < 0 ||
      __builtin_mul_overflow(weight.rows(), weight.cols(), &elements) || elements > kMostElements) {
    return invalid_argument("{}: the program asks for a weight [{}, {}]; no weight has that shape",
                            printable(weight.name()), weight.rows(), weight.cols());
  }
  const bool beside = side_by_side(weight);
  int64_t stacked = 0;  // Along the direction in which pieces follow each other.
  for (const program::Piece& piece : weight.pieces()) {
    ASSIGN_OR_RETURN(const MatrixShape matrix, source_matrix(piece));
    if (!rectangle_of(piece).inside(matrix.rows, matrix.cols)) {
      return invalid_argument(
          "{}: the program asks for rows {} to {} and columns {} to {} of a matrix [{}, {}]",
          printable(piece.source()), piece.row_begin(), piece.row_end(), piece.col_begin(),
          piece.col_end(), matrix.rows, matrix.cols);
    }
    if (piece.interleaved() < 0 || (piece.interleaved() > 0 && matrix.cols % piece.interleaved())) {
      return invalid_argument("{}: the program asks for {} kinds of columns, found {} columns",
                              printable(piece.source()), piece.interleaved(), matrix.cols);
    }
    const MatrixShape placed = placed_shape(piece);
    const int64_t across = beside ? placed.rows : placed.cols;
    const int64_t wanted = beside ? weight.rows() : weight.cols();
    if (across != wanted ||
        __builtin_add_overflow(stacked, beside ? placed.cols : placed.rows, &stacked)) {
      return invalid_argument("{}: the piece of {} is [{}, {}] and does not fit a weight [{}, {}]",
                              printable(weight.name()), printable(piece.source()), placed.rows,
                              placed.cols, weight.rows(), weight.cols());
    }
  }
  const int64_t wanted = beside ? weight.cols() : weight.rows();
  if (stacked == wanted) return absl::OkStatus();
  return invalid_argument("{}: the program asks for [{}, {}], its pieces make {} {}",
                          printable(weight.name()), weight.rows(), weight.cols(), stacked,
                          beside ? "columns" : "rows");
}

std::vector<Part> parts_of(const program::Weight& weight, int64_t row_begin, int64_t row_end) {
  LOCKSTEP_CHECK(0 <= row_begin && row_begin <= row_end && row_end <= weight.rows());
  std::vector<Part> parts;
  int64_t top = 0;  // Of the piece, in the weight.
  int64_t left = 0;
  for (const program::Piece& piece : weight.pieces()) {
    const MatrixShape placed = placed_shape(piece);
    const int64_t first = std::max(top, row_begin);
    const int64_t last = std::min(top + placed.rows, row_end);
    if (first < last && placed.cols > 0) {
      Rectangle source = rectangle_of(piece);
      // The weight's rows are the source's columns where the piece is transposed.
      int64_t& begin = piece.transpose() ? source.col_begin : source.row_begin;
      int64_t& end = piece.transpose() ? source.col_end : source.row_end;
      end = begin + (last - top);
      begin += first - top;
      parts.push_back({&piece, source, first - row_begin, left});
    }
    (side_by_side(weight) ? left : top) += side_by_side(weight) ? placed.cols : placed.rows;
  }
  return parts;
}

}  // namespace lockstep
