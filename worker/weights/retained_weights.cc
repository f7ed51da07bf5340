// SPDX-License-Identifier: Apache-2.0
#include "worker/weights/retained_weights.h"

#include <algorithm>
#include <cstddef>

#include "base/status.h"
#include "checkpoint/recipe.h"

namespace lockstep {
namespace {

using program::Piece;
using program::Weight;

// The number of rows that a piece has in its weight.
int64_t rows_of(const Piece& piece) {
  return piece.transpose() ? piece.col_end() - piece.col_begin()
                           : piece.row_end() - piece.row_begin();
}

void restrict_rows(int64_t begin, int64_t end, Piece* piece) {
  if (piece->transpose()) {
    piece->set_col_end(piece->col_begin() + end);
    piece->set_col_begin(piece->col_begin() + begin);
  } else {
    piece->set_row_end(piece->row_begin() + end);
    piece->set_row_begin(piece->row_begin() + begin);
  }
}

// Two panels with the same text have the same bytes. Every part is preceded by its length, so that
// no two lists of parts give the same text.
std::string recipe_of(const Weight& weight, const KernelEntry* packer, const Panel& panel) {
  std::string text =
      fmt::format("{} {} {} {} {}:", packer != nullptr ? packer->name : "rows", weight.dtype(),
                  static_cast<int>(weight.role()), panel.row_end - panel.row_begin, weight.cols());
  const int64_t above = panel.matrix * (weight.rows() / packed_matrices(weight, packer));
  const auto add = [&text](const Piece& piece) {
    const std::string part = piece.SerializeAsString();
    text += fmt::format("{}:", part.size());
    text += part;
  };
  if (weight.paired()) text += "paired:";
  if (side_by_side(weight)) {  // All pieces together are one row.
    for (const Piece& piece : weight.pieces()) add(piece);
    return text;
  }
  for (const StackedRows& stacked :
       stacked_rows(weight, above + panel.row_begin, above + panel.row_end)) {
    int64_t row = 0;  // The first row of the piece, among all rows.
    for (Piece piece : weight.pieces()) {
      const int64_t rows = rows_of(piece);
      const int64_t begin = std::max(stacked.begin - row, int64_t{0});
      const int64_t end = std::min(stacked.end - row, rows);
      row += rows;
      if (begin >= end) continue;
      restrict_rows(begin, end, &piece);
      add(piece);
    }
  }
  return text;
}

}  // namespace

bool RetainedWeights::serve_all(const program::Program& other, const Bindings& wanted) const {
  if (bindings.used != wanted.used || bindings.packers != wanted.packers) return false;
  for (int i = 0; i < other.weights_size(); ++i) {
    if (program.weights(i).SerializeAsString() != other.weights(i).SerializeAsString()) {
      return false;
    }
  }
  return true;
}

RetainedPanels::RetainedPanels(const RetainedWeights& retained) {
  for (int i = 0; i < retained.program.weights_size(); ++i) {
    if (!retained.bindings.used[i]) continue;
    const Weight& weight = retained.program.weights(i);
    const KernelEntry* packer = retained.bindings.packers[i];
    const auto* data = static_cast<const std::byte*>(retained.weights.view(i).data);
    for_each_panel(weight, packer, [&](const Panel& panel) {
      panels_.emplace(recipe_of(weight, packer, panel), data + panel.offset);
    });
  }
}

const std::byte* RetainedPanels::find(const Weight& weight, const KernelEntry* packer,
                                      const Panel& panel) const {
  const auto found = panels_.find(recipe_of(weight, packer, panel));
  return found == panels_.end() ? nullptr : found->second;
}

}  // namespace lockstep
