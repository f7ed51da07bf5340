// SPDX-License-Identifier: Apache-2.0
// What a step may ask of its values (Step.values), for both ends.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace lockstep {

// That one answer may carry. Of more, a step is run again for what follows.
inline constexpr int64_t kMaxValueBytes = 32 << 20;

// Of what an instruction makes in a step of so many tokens and outputs: 0 for a view of columns.
int64_t made_bytes(const program::Program& program, int instruction, int64_t tokens,
                   int64_t outputs);

// kInvalidArgument: instructions that the program does not have, or more bytes than may be asked
// for. The step's rows are in range.
absl::Status check_values(const cluster::Step& step, const program::Program& program);

}  // namespace lockstep
