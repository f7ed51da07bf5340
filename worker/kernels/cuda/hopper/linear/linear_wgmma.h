// SPDX-License-Identifier: Apache-2.0
// linear and gated_linear by wgmma, for compute capability 9.0. The number of rows of a tile
// changes no bit; tests and cuda_bench request each possible number.
#pragma once

#include "worker/kernels/cuda/target.h"

namespace lockstep::LOCKSTEP_TARGET {

// The rows per tile for `rows` of x and `cols` of the product; 0: the kernels of
// linear_mma.cu are faster.
int wgmma_tile_rows(DType weight, int64_t rows, int64_t cols, int processors);

template <DType kWeight>
const char* linear_wgmma_by(int tile_rows, const KernelArgs& args);
template <DType kWeight>
const char* linear_wgmma(const KernelArgs& args);

}  // namespace lockstep::LOCKSTEP_TARGET
