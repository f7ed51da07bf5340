// SPDX-License-Identifier: Apache-2.0
// The variants of kernels that a rule chooses from, each checked and timed.
#pragma once

#include "worker/kernels/device.h"

namespace lockstep {

// Prints one JSON object per line, then a table for people. False: a variant has other bits, or
// failed.
bool run_variants(Device& device);
bool run_attention_variants(Device& device);

}  // namespace lockstep
