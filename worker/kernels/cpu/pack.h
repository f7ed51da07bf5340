// SPDX-License-Identifier: Apache-2.0
// How weights of each type come to lie in memory for the CPU kernels, the same for every ISA;
// panels.h has the layouts. float16 and bfloat16 are rounded to nearest even.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep::cpu {

// linear: panels of 32 columns, the last one filled up with zeros.
template <DType kWeight>
int64_t panel_bytes(int64_t rows, int64_t cols);
template <DType kWeight>
void pack_panels(const PackArgs& args);

// embed: plain rows.
template <DType kWeight>
int64_t row_bytes(int64_t rows, int64_t cols);
template <DType kWeight>
void pack_rows(const PackArgs& args);

}  // namespace lockstep::cpu
