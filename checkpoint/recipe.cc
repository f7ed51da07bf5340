// SPDX-License-Identifier: Apache-2.0
// The arithmetic of pieces. A program comes from another process: nothing in it is trusted before
// check_recipe.
#include "checkpoint/recipe.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

// The max elements of a tensor or a weight: far more than a real one has, and few enough that sums
// and bytes cannot overflow.
constexpr int64_t kMaxElements = int64_t{1} << 48;

Rectangle rectangle_of(const program::Piece& piece) {
  return {piece.row_begin(), piece.row_end(), piece.col_begin(), piece.col_end()};
}

// The piece's shape in the weight, after transposing.
MatrixShape placed_shape(const program::Piece& piece) {
  const Rectangle source = rectangle_of(piece);
  return piece.transpose() ? MatrixShape{source.cols(), source.rows()}
                           : MatrixShape{source.rows(), source.cols()};
}

}  // namespace

bool side_by_side(const program::Weight& weight) {
  return weight.role() == program::BIAS || weight.role() == program::NORM;
}

absl::StatusOr<MatrixShape> source_matrix(const program::Piece& piece) {
  MatrixShape matrix{.rows = 1, .cols = 1};
  int64_t elements = 1;
  for (const int64_t size : piece.source_shape()) {
    matrix.rows = elements;
    matrix.cols = size;
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements) || elements > kMaxElements) {
      return invalid_argument("{}: the program asks for a shape that no tensor has (dimension {})",
                              printable(piece.source()), size);
    }
  }
  return piece.flat() ? MatrixShape{.rows = 1, .cols = elements} : matrix;
}

absl::Status check_recipe(const program::Weight& weight) {
  int64_t elements = 0;
  if (weight.rows() < 0 || weight.cols() < 0 ||
      __builtin_mul_overflow(weight.rows(), weight.cols(), &elements) || elements > kMaxElements) {
    return invalid_argument("{}: the program asks for a weight [{}, {}]; no weight has that shape",
                            printable(weight.name()), weight.rows(), weight.cols());
  }
  const bool beside = side_by_side(weight);
  int64_t stacked = 0;  // The total along the direction in which pieces follow each other.
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
  if (weight.paired() && wanted % 2 != 0) {
    return invalid_argument("{}: the program asks for pairs of {}, found {}",
                            printable(weight.name()), beside ? "columns" : "rows", wanted);
  }
  if (stacked == wanted) return absl::OkStatus();
  return invalid_argument("{}: the program asks for [{}, {}], its pieces make {} {}",
                          printable(weight.name()), weight.rows(), weight.cols(), stacked,
                          beside ? "columns" : "rows");
}

std::vector<StackedRows> stacked_rows(const program::Weight& weight, int64_t begin, int64_t end) {
  if (!weight.paired()) return {{begin, end, 0, 1}};
  const int64_t half = (side_by_side(weight) ? weight.cols() : weight.rows()) / 2;
  return {{(begin + 1) / 2, (end + 1) / 2, begin % 2, 2},
          {half + begin / 2, half + end / 2, 1 - begin % 2, 2}};
}

std::vector<Part> parts_of(const program::Weight& weight, int64_t row_begin, int64_t row_end) {
  LOCKSTEP_CHECK(0 <= row_begin && row_begin <= row_end && row_end <= weight.rows());
  if (row_begin == row_end) return {};
  const bool beside = side_by_side(weight);
  std::vector<Part> parts;
  for (const StackedRows& rows :
       beside ? stacked_rows(weight, 0, weight.cols()) : stacked_rows(weight, row_begin, row_end)) {
    int64_t begins = 0;  // The first stacked row (column) of this piece.
    for (const program::Piece& piece : weight.pieces()) {
      const MatrixShape placed = placed_shape(piece);
      const int64_t size = beside ? placed.cols : placed.rows;
      const int64_t first = std::max(begins, rows.begin);
      const int64_t last = std::min(begins + size, rows.end);
      if (first < last && (beside ? placed.rows : placed.cols) > 0) {
        Rectangle source = rectangle_of(piece);
        // If the piece is transposed, the weight's rows are the source's columns.
        const bool columns = beside != piece.transpose();
        int64_t& begin = columns ? source.col_begin : source.row_begin;
        int64_t& end = columns ? source.col_end : source.row_end;
        end = begin + (last - begins);
        begin += first - begins;
        const int64_t at = rows.first + (first - rows.begin) * rows.step;
        parts.push_back({.piece = &piece,
                         .source = source,
                         .row = beside ? 0 : at,
                         .col = beside ? at : 0,
                         .row_step = beside ? 1 : rows.step,
                         .col_step = beside ? rows.step : 1});
      }
      begins += size;
    }
  }
  return parts;
}

}  // namespace lockstep
