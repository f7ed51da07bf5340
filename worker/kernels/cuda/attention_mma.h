// SPDX-License-Identifier: Apache-2.0
// Attention on tensor cores over bfloat16 pages that already have the keys and values.
#pragma once

#include "worker/kernels/cuda/target.h"

namespace lockstep::LOCKSTEP_TARGET {

// `args` are attention's, with attributes for which device::takes_mma() is true; scratch has
// device::attention_scratch_bytes().
const char* attend_mma(const KernelArgs& args);

}  // namespace lockstep::LOCKSTEP_TARGET
