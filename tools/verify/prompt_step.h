// SPDX-License-Identifier: Apache-2.0
// The step of a prompt that runs alone, without a scheduler.
#pragma once

#include <cstdint>
#include <span>

#include "coordinator/cluster/group.h"

namespace lockstep {

// Rows [first, first + rows) of a prompt that has slot 0 and pages 0, 1, ... for itself; earlier
// steps computed the rows before. Every row has logits. The caller sets the step's number.
cluster::Step prompt_step(std::span<const int32_t> prompt, int64_t first, int64_t rows,
                          const GroupInfo& info);

}  // namespace lockstep
