// SPDX-License-Identifier: Apache-2.0
// Sizes that the compiler, the worker and the kernels share. The bounds keep every product of two
// sizes of a program within 63 bits.
#pragma once

#include <cfloat>
#include <cstdint>

namespace lockstep {

inline constexpr int64_t kMaxStepRows = 1 << 20;
inline constexpr int64_t kMaxContext = 1 << 24;
inline constexpr int64_t kMaxColumns = int64_t{1} << 31;
inline constexpr int64_t kMaxArenaBytes = int64_t{1} << 46;
inline constexpr int64_t kMaxRowsEach = 1024;  // Rows of a row domain per token or output.
inline constexpr int64_t kMaxExperts = 1024;   // Experts that a route chooses from.
inline constexpr int kMaxRanks = 1024;
inline constexpr int64_t kMaxHeads = 1 << 16;
inline constexpr int64_t kMaxHeadColumns = kMaxColumns / kMaxHeads;
inline constexpr int64_t kMaxTaps = 16;        // Taps of conv.
inline constexpr int64_t kMaxStateDim = 1024;  // Columns of a key or value head with a state block,
                                               // and of a head with its own matrix.
inline constexpr int64_t kMaxStateHeads = kMaxColumns / kMaxStateDim;
inline constexpr float kMaxFloat = FLT_MAX;  // Any finite number.

inline constexpr int64_t kWkvRows = 3;  // Rows of wkv's state block: two sums and their scale.

// Ranks get whole blocks of this many ids of the vocabulary.
inline constexpr int64_t kVocabBlock = 64;

// The max number of operands of an operator.
inline constexpr int kMaxInputs = 8;
inline constexpr int kMaxOutputs = 2;

}  // namespace lockstep
