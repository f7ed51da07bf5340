// SPDX-License-Identifier: Apache-2.0
// Attention on tensor cores: bfloat16 pages, keys and values that already are in them.
#pragma once

#include "worker/kernels/cuda/target.h"

namespace lockstep::LOCKSTEP_TARGET {

// `args` of attention, whose attributes device::takes_mma(); scratch as
// device::attention_scratch_bytes() says.
const char* attend_mma(const KernelArgs& args);

}  // namespace lockstep::LOCKSTEP_TARGET
