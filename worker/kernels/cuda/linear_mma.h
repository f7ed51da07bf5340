// SPDX-License-Identifier: Apache-2.0
// linear and gated_linear on tensor cores. The shape alone chooses how they are cut into blocks,
// which changes no bit. Tests request each way.
#pragma once

#include "worker/kernels/cuda/target.h"

namespace lockstep::LOCKSTEP_TARGET {

enum class MmaBlocks {
  kStream8,  // 8 rows of x, over all of K; below, 16, 32 and 64 rows.
  kStream16,
  kStream32,
  kStream64,
  kTile128,
};

MmaBlocks mma_blocks(int64_t rows, int64_t cols);  // `cols` of the product.

template <DType kWeight>
const char* linear_mma_by(MmaBlocks blocks, const KernelArgs& args);
template <DType kWeight>
const char* linear_mma(const KernelArgs& args);

}  // namespace lockstep::LOCKSTEP_TARGET
