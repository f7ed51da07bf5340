// SPDX-License-Identifier: Apache-2.0
// What the entries of .cu kernels say of memory and of what they can do, beside the constants and
// formulas by which the kernels divide it.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep::device {

// A block of attention's threads has one for each column of a head.
inline constexpr int64_t kMaxHeadDim = 1024;

// Of linear_codes.
int64_t decoded_scratch_bytes(const KernelArgs& largest, int threads);

int64_t page_bytes(const PageShape& page);
const char* attention_fits(const KernelAttrs& attrs, const Device& device);

int64_t candidate_scratch_bytes(const KernelArgs& largest, int threads);

}  // namespace lockstep::device
