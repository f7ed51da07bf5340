// SPDX-License-Identifier: Apache-2.0
// Checks, once on arrival, everything that a worker relies on when it runs a Program. After
// validate(), only the size of memory, the kernels' names and each Step still need checks.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "operators/schema/schema.h"
#include "proto/program.pb.h"

namespace lockstep {

inline constexpr uint32_t kProgramVersion = 5;

// Whether a KV page may have this many positions. A page must be whole vectors of keys. The
// positions that an attention kernel reads at once (kKeyBlock) must be whole pages.
constexpr bool fits_pages(int64_t positions) {
  return positions == 16 || positions == 32 || positions == 64;
}

// Whether a weight of this role fits an operand of this kind.
bool role_fits(OperandKind kind, program::Role role);

// The number of matrices in a weight's rows (a bias's columns): 1, or one per expert.
int64_t matrices_of(const program::Weight& weight);

// Checks that every index is in range; every value is written once, before it is read, and kept
// until its last reader; operands, types, shapes and attributes fit worker/kernels/kernel.h; every
// range is inside the arena; every weight consists exactly of its pieces. kInvalidArgument names
// the first problem. Never crashes, whatever the bytes.
absl::Status validate(const program::Program& program);

// Whether a layer keeps a state block per sequence, which pages cannot restore.
bool has_blocks(const program::Program& program);

}  // namespace lockstep
