// SPDX-License-Identifier: Apache-2.0
// linear and gated_linear on tensor cores. The shape alone decides how a product is cut into
// blocks, and no way to cut it changes a bit. Tests request each of the ways.
#pragma once

#include "worker/kernels/cuda/target.h"

namespace lockstep::LOCKSTEP_TARGET {

enum class MmaBlocks {
  kStream8,  // Blocks of 8 rows of x over all of K. The next three have 16, 32 and 64 rows.
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
