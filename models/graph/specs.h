// SPDX-License-Identifier: Apache-2.0
// Arguments of a Graph's builders other than values and names.
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
  bool by_column = false;  // One weight per head, all in one vector.
};

// Factors by a row's position, one for every `length` positions; the last one applies to all later
// positions. Or, with log_factor, as in program.PositionScaleAttrs.
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

// Rows of a fused matrix and of its bias, such as the k of [q; k; v]: stacked ranges.
struct FusedPart {
  struct RowRange {
    int64_t begin, end;
  };
  std::string name;      // For messages: "k"; "" for all rows.
  int64_t all_rows = 0;  // Rows of the fused matrix.
  std::vector<RowRange> rows;
  int64_t matrices = 0;     // If the source is [matrices, rows, columns]; 0: a plain matrix.
  bool transposed = false;  // The source is [columns, all_rows],
  int64_t matrix = 0;       // or, with `matrices`, its matrix of this number, transposed too.
  bool bare_name = false;   // The tensor's name has no ".weight".
};

// The matrices of all experts for one linear.
struct Experts {
  int64_t count = 0;
  // One tensor per expert, "experts.*.up_proj" with its number for the star; or, if stack_rows is
  // set, one tensor [count, rows, columns]: "experts.gate_up_proj".
  std::string name;
  int64_t stack_rows = 0;  // Rows of each matrix in the stack; the linear's begin at:
  int64_t row_begin = 0;
  bool transposed = false;  // The stack is [count, columns, rows].
  // The rows of this many linears alternate; this one's have the number `row_begin`.
  int64_t interleaved = 0;
};

struct AttentionSpec {
  int64_t head_dim = 0;
  int64_t v_dim = 0;            // Columns of a value head; 0: head_dim.
  bool values_in_keys = false;  // They are the first v_dim columns of keys: v is k.
  int64_t heads = 0;
  int64_t kv_heads = 0;
  float scale = 0;
  int64_t window = 0;  // 0: all positions.
  float cap = 0;       // The cap of scores; 0: none.
  int layer = 0;
  std::vector<float> slopes = {};  // [heads], the slopes of ALiBi; empty: none.
  std::string sinks = "";          // The tensor [heads] of scores without values; "": none.
  int64_t chunk = 0;               // See program.AttentionAttrs; 0: none.
  // The pages are those of `layer`, whose attention has already appended k and v.
  bool read_only = false;
};

// A small matrix per head, selected from a tensor [heads * rows, columns], in which every head has
// `rows` rows: in_dim rows from row_begin on with out_dim columns, or, if transposed, out_dim rows
// with in_dim columns.
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

// How rows are routed to experts; see RouteAttrs.
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
