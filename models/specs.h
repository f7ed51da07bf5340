// SPDX-License-Identifier: Apache-2.0
// What builders of a Graph take beside values, names and attributes (operators/attributes.h).
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
  int64_t offset = 0;
  program::RopeTableAttrs table;
};

// A norm within each head: by the root mean square, or a layer norm where `centred`.
struct HeadNorm {
  float eps = 0;
  int64_t head_dim = 0;
  float plus = 0;  // As rms_norm's.
  bool centred = false;
  bool bias = false;
  // A weight for each head: tensors of their own ("norms.*" with its number for the star), or rows
  // of one tensor [heads, head_dim]. Else one for all heads.
  bool by_head = false;
  bool by_column = false;  // A weight for each head, all in one vector.
};

// By a row's position, one for every `length` of them: the last one holds for all that follow. Or
// with log_factor as program.PositionScaleAttrs says.
struct PositionScales {
  std::vector<float> scales = {};
  int64_t length = 0;  // 0: nothing is scaled.
  float log_factor = 0;
  int64_t offset = 0;  // Added to a position first.
};

// Norms of q and k before they turn, as a family has them.
struct QkNorm {
  enum class Over : uint8_t { kNothing, kHead, kAllHeads };
  Over over = Over::kNothing;  // Over all heads: rms_norm.
  bool centred = false;        // As HeadNorm's.
  bool bias = false;
  bool by_head = false;
  const char* q = "q_norm";  // Names in the checkpoint.
  const char* k = "k_norm";

  bool any() const { return over != Over::kNothing; }
};
inline constexpr QkNorm kHeadNorms = {.over = QkNorm::Over::kHead};
inline constexpr QkNorm kNormOverAllHeads = {.over = QkNorm::Over::kAllHeads};

// Rows of a fused matrix and of its bias, such as the k of [q; k; v]: ranges, stacked.
struct FusedPart {
  struct RowRange {
    int64_t begin, end;
  };
  std::string name;      // For messages: "k"; "" for all rows.
  int64_t all_rows = 0;  // Of the fused matrix.
  std::vector<RowRange> rows;
  int64_t matrices = 0;     // Of a tensor [matrices, rows, columns]; 0: of a plain matrix.
  bool transposed = false;  // The source is [columns, all_rows],
  int64_t matrix = 0;       // or with `matrices` the one of this number, [columns, all_rows] too.
  bool bare_name = false;   // The tensor is called as it is, without ".weight".
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
  // The rows of so many linears alternate, of which this one's have the number `row_begin`.
  int64_t interleaved = 0;
};

// The small matrix of each head, cut out of a tensor [heads * rows, columns] in which every head
// has `rows`: those from row_begin on, in_dim of them with out_dim columns, or, transposed, out_dim
// of them with in_dim columns.
struct HeadLinearSpec {
  int64_t heads = 0;
  int64_t in_dim = 0;
  int64_t out_dim = 0;
  bool transposed = false;
  int64_t rows = 0;
  int64_t row_begin = 0;
};

// A convolution over time, of each column by itself: see ConvAttrs. Its weight is stored as
// [channels, 1, taps], of which the value's columns are those from `begin` on.
struct ConvSpec {
  int64_t taps = 0;
  bool bias = false;
  int64_t channels = 0;  // 0: as many as the value has columns.
  int64_t begin = 0;
};

}  // namespace lockstep
