// SPDX-License-Identifier: Apache-2.0
// Checks and times each variant of the kernels that have variants. Workers choose one by a rule.
#pragma once

#include "worker/kernels/device.h"

namespace lockstep {

// Prints one JSON object per line, then a table for people. False: a variant has other bits, or
// failed.
bool run_variants(Device& device);
bool run_expert_variants(Device& device);
bool run_attention_variants(Device& device);

}  // namespace lockstep
