// SPDX-License-Identifier: Apache-2.0
// Makes one piece per head, in order.
#include "models/graph/head_pieces.h"

namespace lockstep {

Parameter vector_by_head(const std::string& name, program::Role role, AxisSize heads, float plus) {
  Parameter parameter{.name = name, .role = role, .rows = {Axis::kNone, 1, 1}, .cols = heads};
  const size_t star = name.find('*');
  const bool own_tensors = star != std::string::npos;
  for (int64_t head = 0; head < heads.count; ++head) {
    program::Piece& piece = parameter.pieces.emplace_back();
    piece.set_source(
        own_tensors ? name.substr(0, star) + std::to_string(head) + name.substr(star + 1) : name);
    if (!own_tensors) piece.add_source_shape(heads.count);
    piece.add_source_shape(heads.unit);
    piece.set_plus(plus);
    piece.set_row_begin(own_tensors ? 0 : head);
    piece.set_row_end(piece.row_begin() + 1);
    piece.set_col_end(heads.unit);
  }
  return parameter;
}

}  // namespace lockstep
