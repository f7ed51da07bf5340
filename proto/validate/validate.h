// SPDX-License-Identifier: Apache-2.0
// What a worker relies on when it runs a Program, checked once on arrival: after validate() nothing
// else needs a check but the size of memory, the kernels' names and each Step.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "operators/schema/schema.h"
#include "proto/program.pb.h"

namespace lockstep {

inline constexpr uint32_t kProgramVersion = 5;

// Positions of a KV page: whole vectors of keys, and a whole number of pages a block.
constexpr bool fits_pages(int64_t positions) {
  return positions == 16 || positions == 32 || positions == 64;
}

// Whether a weight of this role is what an operand wants.
bool role_fits(OperandKind kind, program::Role role);

// Matrices that a weight's rows (a bias's columns) are: 1, or one for each expert.
int64_t matrices_of(const program::Weight& weight);

// Every index in range; every value written once, before it is read, and its memory kept until its
// last reader; operands, types, shapes and attributes as worker/kernels/kernel.h wants them; every
// range inside the arena; every weight composed exactly of its pieces. kInvalidArgument names the
// first thing that is not so. Never crashes, whatever the bytes.
absl::Status validate(const program::Program& program);

// Whether a layer keeps something of a sequence in a block: what pages cannot bring back.
bool has_blocks(const program::Program& program);

}  // namespace lockstep
