// SPDX-License-Identifier: Apache-2.0
// What builders of a Graph take beside values and names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace lockstep {

// The columns of rotary angles; see program.RopeTableAttrs and RopeAttrs.
struct Rope {
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;
  bool interleaved = false;
  program::RopeTableAttrs table;
};

// Rows of a fused matrix and of its bias, such as the k of [q; k; v]: ranges, stacked.
struct FusedPart {
  struct RowRange {
    int64_t begin, end;
  };
  std::string name;      // For messages: "k".
  int64_t all_rows = 0;  // Of the fused matrix.
  std::vector<RowRange> rows;
  int64_t matrices = 0;  // Of a tensor [matrices, rows, columns]; 0: of a plain matrix.
};

// The matrices of all experts for one linear.
struct Experts {
  int64_t count = 0;
  // One tensor each, "experts.*.up_proj" with its number for the star; or all in one tensor
  // [count, rows, columns]: "experts.gate_up_proj" (stack_rows says that it is one).
  std::string name;
  int64_t stack_rows = 0;  // Of each matrix in the stack, of which the linear's begin at:
  int64_t row_begin = 0;
  bool transposed = false;  // The stack is [count, columns, rows].
};

// How rows are routed to experts; see program.RouteAttrs.
struct RouteSpec {
  int64_t chosen = 0;
  bool sigmoid = false;
  bool softmax_of_chosen = false;
  int64_t groups = 1;
  int64_t chosen_groups = 1;
  bool best_two = false;
  bool renormalised = false;
  float scale = 1;
};

}  // namespace lockstep
