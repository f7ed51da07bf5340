// SPDX-License-Identifier: Apache-2.0
// What a worker relies on when it runs a Program, checked once on arrival: after validate() nothing
// else needs a check but the size of memory, the kernels' names and each Step.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "proto/program.pb.h"

namespace lockstep {

inline constexpr uint32_t kProgramVersion = 2;

// Pages divide an attention block, and the vocabulary is cut between blocks: those of
// worker/kernels/kernel.h (the worker asserts that they are the same).
inline constexpr int64_t kProgramBlock = 64;
// Positions of a KV page: whole vectors of keys, and a whole number of pages a block.
constexpr bool fits_pages(int64_t positions) {
  return positions == 16 || positions == 32 || positions == 64;
}

// Bounds that keep every product of two of them within 63 bits.
inline constexpr int64_t kMaxStepRows = 1 << 20;
inline constexpr int64_t kMaxContext = 1 << 24;
inline constexpr int64_t kMaxColumns = int64_t{1} << 31;
inline constexpr int64_t kMaxArenaBytes = int64_t{1} << 46;
inline constexpr int kMaxRanks = 1024;

// Every index in range; every value written once, before it is read, and its memory kept until its
// last reader; operands, types, shapes and attributes as worker/kernels/kernel.h wants them; every
// range inside the arena; every weight composed exactly of its pieces. kInvalidArgument names the
// first thing that is not so. Never crashes, whatever the bytes.
absl::Status validate(const program::Program& program);

}  // namespace lockstep
