// SPDX-License-Identifier: Apache-2.0
// Attention on tensor cores over pages that already have the keys and values.
#pragma once

#include "worker/kernels/cuda/attention/attention_pages.h"

namespace lockstep::LOCKSTEP_TARGET {

// `args` are attention's, with attributes for which device::takes_mma() is true; scratch has
// device::attention_scratch_bytes(). T is the type of the pages' elements: BF16 or Code. `by_rows`:
// steps in which each sequence has one row are computed by attention_rows.cu if it takes their
// operands; the bits are the same.
template <typename T>
const char* attend_mma(const KernelArgs& args, bool by_rows);

}  // namespace lockstep::LOCKSTEP_TARGET
