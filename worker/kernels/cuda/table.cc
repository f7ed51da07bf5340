// SPDX-License-Identifier: Apache-2.0
// Every kernel of a GPU. Lookup takes the first row that fits: for linears our own kernel on tensor
// cores (by wgmma, if the GPU has it), then cuBLASLt's (in the fast class only), then the plain
// one.
#include <array>

#include "worker/kernels/cuda/linear/fragments.h"
#include "worker/kernels/cuda/sizes.h"
#include "worker/kernels/device.h"
#include "worker/kernels/find.h"
#include "worker/kernels/pack_rows.h"

#define LOCKSTEP_TARGET cuda
#define LOCKSTEP_TARGET_NAME "cuda"
#include "worker/kernels/cuda/rows.inc"

namespace lockstep {
namespace cuda {

const char* linear_cublas_f32(const KernelArgs& args);
const char* linear_cublas_bf16(const KernelArgs& args);
const char* linear_cublas_f16(const KernelArgs& args);

template <DType kType>
constexpr KernelEntry cublas_row(KernelFn run, const char* name) {
  return {.op = Op::kLinear,
          .weight = kType,
          .activation = kType,
          .run = run,
          .name = name,
          .pack = pack_plain_rows<kType>,
          .packed_bytes = plain_row_bytes<kType>,
          .scratch_bytes = device::product_scratch_bytes,
          .own_bits = true};
}

constexpr auto cublas_rows() {
  return std::to_array<KernelEntry>({
      cublas_row<DType::kF32>(linear_cublas_f32, "linear_f32_cublas"),
      cublas_row<DType::kBF16>(linear_cublas_bf16, "linear_bf16_cublas"),
      cublas_row<DType::kF16>(linear_cublas_f16, "linear_f16_cublas"),
  });
}

}  // namespace cuda

namespace {

bool has_wgmma(const Device& device) { return device.kind().starts_with("sm_90x"); }

}  // namespace

std::span<const KernelEntry> cuda_kernels() {
  static constexpr auto kKernels =
      cuda::joined(cuda::wgmma_rows(), cuda::mma_rows(), cuda::cublas_rows(), cuda::rows());
  static_assert(cuda::only_codes_take_bf16(kKernels));
  return kKernels;
}

std::span<const KernelEntry> cuda_kernels_of(const Device& device) {
  return cuda_kernels().subspan(has_wgmma(device) ? 0 : cuda::wgmma_rows().size());
}

std::span<const KernelVariant> wgmma_variants_of(const Device& device) {
  static constexpr auto kVariants = cuda::wgmma_variants();
  return has_wgmma(device) ? std::span<const KernelVariant>(kVariants)
                           : std::span<const KernelVariant>();
}

std::span<const KernelVariant> expert_variants_of(const Device& device) {
  static constexpr auto kVariants = cuda::expert_variants();
  return has_wgmma(device) ? std::span<const KernelVariant>(kVariants)
                           : std::span<const KernelVariant>();
}

std::span<const AttentionVariant> attention_variants_of(const Device& device) {
  static constexpr auto kVariants = cuda::attention_variants();
  return has_wgmma(device) ? std::span<const AttentionVariant>(kVariants)
                           : std::span<const AttentionVariant>();
}

}  // namespace lockstep
