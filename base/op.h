// SPDX-License-Identifier: Apache-2.0
// Every operator, by one name from a model's builder to its kernel. An operator is what a person
// would write as one kernel. program.proto mirrors the numbers; ARCHITECTURE.md has the formulas.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

enum class Op : uint8_t {
  kNone = 0,
  kEmbed = 1,      // out[row] = weight[token of row]; rows of the vocabulary held elsewhere: -0.0
  kLinear = 2,     // out = x * weight^T (+ bias)
  kRmsNorm = 3,    // out = x / rms(x) * weight
  kHeadNorm = 4,   // rms_norm within each head, one weight of head_dim for all heads
  kRopeTable = 5,  // cos and sin of every row's position, once a step
  kRope = 6,       // rotary embedding of every head by the table
  kAttention = 7,  // appends k and v to the layer's pages, then attends causally
  kSilu = 8,       // x * sigmoid(x)
  kMul = 9,
  kAdd = 10,
  kGated = 11,          // silu(gate) * up
  kAddNorm = 12,        // sum = x + y; out = rms_norm(sum): two outputs
  kCast = 13,           // float32 -> bfloat16, nearest even
  kSelectRows = 14,     // the rows whose logits are wanted: Rows -> Outputs
  kTopCandidates = 15,  // logits -> candidates of this rank's slice of the vocabulary
  kAllReduce = 16,      // sum over ranks, in rank order
  kAllGather = 17,      // columns of all ranks side by side
  kColumns = 18,        // a view of some columns: no kernel
};
inline constexpr int kOpCount = 19;

// The operator's word: "rms_norm".
std::string_view op_name(Op op);
std::optional<Op> find_op(std::string_view name);

}  // namespace lockstep
