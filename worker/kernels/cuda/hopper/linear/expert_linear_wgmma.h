// SPDX-License-Identifier: Apache-2.0
// expert_linear by wgmma, for compute capability 9.0. The number of rows of a tile changes no bit;
// tests and cuda_bench request each possible number.
#pragma once

#include "worker/kernels/cuda/target.h"

namespace lockstep::LOCKSTEP_TARGET {

// The rows per tile for this number of routes in all, and `cols` columns of each expert; 0: the
// kernels of expert_linear.cu are faster.
int expert_wgmma_tile_rows(DType weight, int64_t routes, int64_t experts, int64_t cols,
                           int processors);

template <DType kWeight>
const char* expert_linear_wgmma_by(int tile_rows, const KernelArgs& args);
template <DType kWeight>
const char* expert_linear_wgmma(const KernelArgs& args);

}  // namespace lockstep::LOCKSTEP_TARGET
