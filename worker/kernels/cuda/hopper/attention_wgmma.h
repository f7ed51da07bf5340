// SPDX-License-Identifier: Apache-2.0
// Attention of prompts by wgmma, for compute capability 9.0, with the bits of attention_mma.cu.
#pragma once

#include "worker/kernels/cuda/sizes.h"
#include "worker/kernels/cuda/target.h"

namespace lockstep::LOCKSTEP_TARGET {

// Whether attend_wgmma_by() takes the operands of attend_mma(): heads of up to 128 columns, and
// aligned rows.
bool takes_wgmma(const KernelArgs& args);
// Whether there are enough rows for wgmma.
bool is_prompt(const KernelArgs& args);

// Like attend_mma() with by_rows. attend_wgmma() calls attend_mma() for operands or steps that do
// not suit wgmma; attend_wgmma_by() needs operands for which takes_wgmma() is true.
const char* attend_wgmma(const KernelArgs& args);
const char* attend_wgmma_by(device::AttentionWork work, const KernelArgs& args);

}  // namespace lockstep::LOCKSTEP_TARGET
