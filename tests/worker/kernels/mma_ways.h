// SPDX-License-Identifier: Apache-2.0
// Linears on tensor cores over the shim with a fixed block shape.
#pragma once

#include <map>

#include "worker/kernels/cuda/linear/linear_mma.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

using cuda_shim::MmaBlocks;

template <DType kWeight, MmaBlocks kBlocks>
const char* run_by(const KernelArgs& args) {
  return cuda_shim::linear_mma_by<kWeight>(kBlocks, args);
}

template <DType kWeight>
KernelFn way(MmaBlocks blocks) {
  switch (blocks) {
    case MmaBlocks::kStream8:
      return run_by<kWeight, MmaBlocks::kStream8>;
    case MmaBlocks::kStream16:
      return run_by<kWeight, MmaBlocks::kStream16>;
    case MmaBlocks::kStream32:
      return run_by<kWeight, MmaBlocks::kStream32>;
    case MmaBlocks::kStream64:
      return run_by<kWeight, MmaBlocks::kStream64>;
    case MmaBlocks::kTile128:
      break;
  }
  return run_by<kWeight, MmaBlocks::kTile128>;
}

// The kernel of the table with a fixed block shape.
inline KernelEntry by(KernelEntry kernel, MmaBlocks blocks) {
  const std::map<DType, KernelFn> runs = {
      {DType::kBF16, way<DType::kBF16>(blocks)}, {DType::kF16, way<DType::kF16>(blocks)},
      {DType::kQ8, way<DType::kQ8>(blocks)},     {DType::kQ8C, way<DType::kQ8C>(blocks)},
      {DType::kQ4, way<DType::kQ4>(blocks)},     {DType::kQ4M, way<DType::kQ4M>(blocks)}};
  kernel.run = runs.at(kernel.weight);
  return kernel;
}

}  // namespace lockstep
