// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/cuda/shim/table.h"

#include <array>

#include "worker/kernels/cuda/linear/fragments.h"
#include "worker/kernels/cuda/sizes.h"
#include "worker/kernels/pack_rows.h"

#define LOCKSTEP_TARGET cuda_shim
#define LOCKSTEP_TARGET_NAME "cuda_shim"
#include "worker/kernels/cuda/rows.inc"

namespace lockstep {

std::span<const KernelEntry> cuda_shim_kernels() {
  static constexpr auto kKernels =
      cuda_shim::joined(cuda_shim::mma_rows(), cuda_shim::wgmma_rows(), cuda_shim::rows());
  static_assert(cuda_shim::only_codes_take_bf16(kKernels));
  return kKernels;
}

std::span<const KernelVariant> wgmma_shim_variants() {
  static constexpr auto kVariants = cuda_shim::wgmma_variants();
  return kVariants;
}

std::span<const KernelVariant> expert_shim_variants() {
  static constexpr auto kVariants = cuda_shim::expert_variants();
  return kVariants;
}

std::span<const AttentionVariant> attention_shim_variants() {
  static constexpr auto kVariants = cuda_shim::attention_variants();
  return kVariants;
}

}  // namespace lockstep
