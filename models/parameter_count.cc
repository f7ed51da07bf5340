// SPDX-License-Identifier: Apache-2.0
#include "models/parameter_count.h"

#include <array>
#include <set>
#include <string_view>
#include <utility>

namespace lockstep {

int64_t count_parameters(const Graph& graph) {
  using Rectangle = std::pair<std::string_view, std::array<int64_t, 4>>;
  std::set<Rectangle> counted;
  int64_t count = 0;
  for (const Parameter& parameter : graph.parameters()) {
    for (const program::Piece& piece : parameter.pieces) {
      const Rectangle rectangle = {
          piece.source(), {piece.row_begin(), piece.row_end(), piece.col_begin(), piece.col_end()}};
      if (!counted.insert(rectangle).second) continue;
      count += (piece.row_end() - piece.row_begin()) * (piece.col_end() - piece.col_begin());
    }
  }
  return count;
}

}  // namespace lockstep
