// SPDX-License-Identifier: Apache-2.0
// Packs linear's weights for the CPU kernels, in the same way for every ISA: panels of 32 columns,
// the last one filled up with zeros (panels.h has the layouts). Weights that are packed as
// float16 or bfloat16 are rounded to nearest even.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep::cpu {

template <DType kWeight>
int64_t panel_bytes(int64_t rows, int64_t cols);
template <DType kWeight>
void pack_panels(const PackArgs& args);

}  // namespace lockstep::cpu
