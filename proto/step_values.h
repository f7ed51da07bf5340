// SPDX-License-Identifier: Apache-2.0
// The values that a step may request (Step.values), for both sides.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace lockstep {

// The max bytes of values in one answer. For more values, the step is run again.
inline constexpr int64_t kMaxValueBytes = 32 << 20;

// The bytes of an instruction's results in a step of this many tokens and outputs: 0 for a view.
int64_t made_bytes(const program::Program& program, int instruction, int64_t tokens,
                   int64_t outputs);

// kInvalidArgument: the program does not have these instructions, or they make more bytes than
// allowed. The step's rows must be in range.
absl::Status check_values(const cluster::Step& step, const program::Program& program);

}  // namespace lockstep
