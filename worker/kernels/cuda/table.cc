// SPDX-License-Identifier: Apache-2.0
// Every kernel of a GPU. Lookup takes the first row that fits: for linears our own on tensor cores,
// then cuBLASLt's, then the plain one.
#include <array>

#include "worker/kernels/cuda/fragments.h"
#include "worker/kernels/cuda/sizes.h"
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

constexpr auto cublas_rows() {
  constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kF16 = DType::kF16;
  constexpr bool kOwnBits = true;  // Only for the fast class.
  return std::to_array<KernelEntry>({
      {Op::kLinear, kF32, kF32, Isa::kPortable, linear_cublas_f32, "linear_f32_cublas",
       pack_plain_rows<kF32>, plain_row_bytes<kF32>, device::product_scratch_bytes},
      {Op::kLinear, kBF16, kBF16, Isa::kPortable, linear_cublas_bf16, "linear_bf16_cublas",
       pack_plain_rows<kBF16>, plain_row_bytes<kBF16>, device::product_scratch_bytes, nullptr,
       nullptr, false, kOwnBits},
      {Op::kLinear, kF16, kF16, Isa::kPortable, linear_cublas_f16, "linear_f16_cublas",
       pack_plain_rows<kF16>, plain_row_bytes<kF16>, device::product_scratch_bytes, nullptr,
       nullptr, false, kOwnBits},
  });
}

}  // namespace cuda

std::span<const KernelEntry> cuda_kernels() {
  static constexpr auto kKernels =
      cuda::joined(cuda::mma_rows(), cuda::cublas_rows(), cuda::rows());
  return kKernels;
}

}  // namespace lockstep
