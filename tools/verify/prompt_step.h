// SPDX-License-Identifier: Apache-2.0
// A prompt computed for its own sake, without a scheduler.
#pragma once

#include <cstdint>
#include <span>

#include "coordinator/cluster/group.h"

namespace lockstep {

// Rows [first, first + rows) of a prompt that has slot 0 and pages 0, 1, ... to itself; those
// before were computed by steps before. Every row's logits are wanted. Its number is the caller's
// to set.
cluster::Step prompt_step(std::span<const int32_t> prompt, int64_t first, int64_t rows,
                          const GroupInfo& info);

}  // namespace lockstep
