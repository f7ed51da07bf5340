// SPDX-License-Identifier: Apache-2.0
// A weight of a graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/numbers/dtype.h"
#include "models/graph/axis.h"
#include "proto/program.pb.h"

namespace lockstep {

// A weight in the model's shape: rows [out axis], columns [in axis]; one row for NORM and BIAS.
struct Parameter {
  std::string name;  // The name in messages; pieces name the checkpoint's tensors.
  program::Role role = program::NO_ROLE;
  DType dtype = DType::kF32;  // The type of the computation; set by a pass.
  AxisSize rows = {};         // BIAS and NORM: the columns' axis is `cols`, and rows.count is 1.
  AxisSize cols = {};
  std::vector<program::Piece> pieces = {};  // Stacked along rows (along columns for BIAS and NORM).
  int64_t matrices = 1;  // Stacked vertically, each of size `rows`; vectors side by side.
  bool paired = false;   // Rows (of a vector: columns) of the two halves of the pieces alternate.

  bool is_vector() const { return role == program::BIAS || role == program::NORM; }
  // The totals over all matrices.
  int64_t all_rows() const { return is_vector() ? 1 : matrices * rows.columns(); }
  int64_t all_cols() const { return is_vector() ? matrices * cols.columns() : cols.columns(); }
};

}  // namespace lockstep
