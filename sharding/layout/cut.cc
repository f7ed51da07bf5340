// SPDX-License-Identifier: Apache-2.0
// A parameter is a stack of rectangles. cut_across() selects a part of the stack: it keeps some
// rectangles and trims the first and the last. cut_along() trims every rectangle.
#include "sharding/layout/cut.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lockstep {
namespace {

// The rectangle's extent in rows (or columns) of the parameter, which are the source's columns (or
// rows) if the piece is transposed.
Range extent(const program::Piece& piece, bool rows) {
  if (rows != piece.transpose()) return {piece.row_begin(), piece.row_end()};
  return {piece.col_begin(), piece.col_end()};
}

void set_extent(program::Piece& piece, bool rows, Range range) {
  if (rows != piece.transpose()) {
    piece.set_row_begin(range.begin);
    piece.set_row_end(range.end);
  } else {
    piece.set_col_begin(range.begin);
    piece.set_col_end(range.end);
  }
}

// The pieces, one after another, form matrices of `each` rows (or columns). Keeps the rows
// (columns) `wanted` of each matrix: drops pieces outside of them and trims the others.
std::vector<program::Piece> cut_across(const std::vector<program::Piece>& pieces, bool rows,
                                       Range wanted, int64_t each) {
  std::vector<program::Piece> kept;
  int64_t before = 0;  // Rows (columns) of the current matrix before this piece.
  for (const program::Piece& piece : pieces) {
    const Range own = extent(piece, rows);
    for (int64_t done = 0; done < own.size();) {
      const int64_t size = std::min(own.size() - done, each - before);
      const int64_t begin = std::max<int64_t>(wanted.begin - before, 0);
      const int64_t end = std::min(wanted.end - before, size);
      if (begin < end) {
        kept.push_back(piece);
        set_extent(kept.back(), rows, {own.begin + done + begin, own.begin + done + end});
      }
      done += size;
      before = (before + size) % each;
    }
  }
  LOCKSTEP_CHECK(before == 0 && wanted.end <= each);
  return kept;
}

std::vector<program::Piece> cut_along(const std::vector<program::Piece>& pieces, bool rows,
                                      Range wanted) {
  std::vector<program::Piece> kept = pieces;
  for (program::Piece& piece : kept) {
    const Range own = extent(piece, rows);
    LOCKSTEP_CHECK(wanted.end <= own.size());
    set_extent(piece, rows, {own.begin + wanted.begin, own.begin + wanted.end});
  }
  return kept;
}

Parameter cut(const Parameter& parameter, Range units, bool rows) {
  Parameter result = parameter;
  AxisSize& axis = rows ? result.rows : result.cols;
  LOCKSTEP_CHECK(0 <= units.begin && units.begin <= units.end && units.end <= axis.count);
  const Range wanted = {units.begin * axis.unit, units.end * axis.unit};
  const int64_t each = axis.columns();
  axis.count = units.size();
  const bool across = rows != parameter.is_vector();
  result.pieces = across ? cut_across(parameter.pieces, rows, wanted, each)
                         : cut_along(parameter.pieces, rows, wanted);
  return result;
}

}  // namespace

Parameter cut_rows(const Parameter& parameter, Range units) { return cut(parameter, units, true); }
Parameter cut_cols(const Parameter& parameter, Range units) { return cut(parameter, units, false); }

}  // namespace lockstep
