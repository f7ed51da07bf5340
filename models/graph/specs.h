// SPDX-License-Identifier: Apache-2.0
// Arguments of a Graph's builders other than values, names and attributes (operators/attributes.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace lockstep {

// The rotated columns of a head, and the table of their angles (program.RopeTableAttrs, RopeAttrs).
struct Rope {
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;
  bool interleaved = false;
  int64_t offset = 0;
  program::RopeTableAttrs table;
};

// A norm within each head: an RMS norm, or a layer norm if `centred`.
struct HeadNorm {
  float eps = 0;
  int64_t head_dim = 0;
  float plus = 0;  // See rms_norm.
  bool centred = false;
  bool bias = false;
  // One weight per head: separate tensors ("norms.*" with its number for the star), or rows of one
  // tensor [heads, head_dim]. If false, one weight for all heads.
  bool by_head = false;
  bool by_column = false;  // One weight per head, all in one vector [heads * head_dim].
};

// Factors by a row's position, one for every `length` positions; the last one applies to all later
// positions. With log_factor, the formula of program.PositionScaleAttrs replaces the list.
struct PositionScales {
  std::vector<float> scales = {};
  int64_t length = 0;  // 0: no scaling.
  float log_factor = 0;
  int64_t offset = 0;  // Added to a position first.
};

// A family's norms of q and k before rotation.
struct QkNorm {
  enum class Over : uint8_t { kNothing, kHead, kAllHeads };
  Over over = Over::kNothing;  // Over all heads: rms_norm.
  bool centred = false;        // See HeadNorm.
  bool bias = false;
  bool by_head = false;
  const char* q = "q_norm";  // Names in the checkpoint.
  const char* k = "k_norm";

  bool any() const { return over != Over::kNothing; }
};
inline constexpr QkNorm kHeadNorms = {.over = QkNorm::Over::kHead};
inline constexpr QkNorm kNormOverAllHeads = {.over = QkNorm::Over::kAllHeads};

// Rows of a fused matrix and of its bias, e.g. those of k in [q; k; v]: ranges, stacked in order.
struct FusedPart {
  struct RowRange {
    int64_t begin, end;
  };
  std::string name;      // For messages: "k"; "" for all rows.
  int64_t all_rows = 0;  // Rows of the fused matrix.
  std::vector<RowRange> rows;
  int64_t matrices = 0;     // The source is [matrices, rows, columns]; 0: it is one matrix.
  bool transposed = false;  // The source is [columns, all_rows].
  // If the source has several transposed matrices [columns, all_rows]: the index of this one.
  int64_t matrix = 0;
  bool bare_name = false;  // The tensor's name has no ".weight".
};

// The matrices of all experts for one linear.
struct Experts {
  int64_t count = 0;
  // One tensor per expert, "experts.*.up_proj" with its number for the star; or, if stack_rows is
  // set, one tensor [count, rows, columns]: "experts.gate_up_proj".
  std::string name;
  int64_t stack_rows = 0;   // Rows of each matrix in the stack.
  int64_t row_begin = 0;    // The linear's first row in each matrix.
  bool transposed = false;  // The stack is [count, columns, rows].
  // The rows of this many linears alternate; this linear is number `row_begin`. 0: none alternate.
  int64_t interleaved = 0;
};

// A small matrix per head. In the tensor [heads * rows, columns] every head has `rows` rows. Its
// matrix is in_dim of these rows, from row_begin on, with out_dim columns; or, if transposed,
// out_dim rows with in_dim columns.
struct HeadLinearSpec {
  int64_t heads = 0;
  int64_t in_dim = 0;
  int64_t out_dim = 0;
  bool transposed = false;
  int64_t rows = 0;
  int64_t row_begin = 0;
};

// A convolution over time, per column: see ConvAttrs. Its weight is stored as [channels, 1, taps];
// the value's columns are the channels from `begin` on.
struct ConvSpec {
  int64_t taps = 0;
  bool bias = false;
  int64_t channels = 0;  // 0: the number of the value's columns.
  int64_t begin = 0;
};

}  // namespace lockstep
