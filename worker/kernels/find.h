// SPDX-License-Identifier: Apache-2.0
// Look-up in the tables of kernels, and the cost of a kernel. Thread-safe: tables are constant.
#pragma once

#include <span>

#include "worker/kernels/kernel.h"

namespace lockstep {

// All CPU kernels, for each (operator, weight, activation) the best first.
std::span<const KernelEntry> cpu_kernels();
// All kernels of a GPU, the best first; none in a build without CUDA. Their operands, and the
// targets of pointers in attributes and step, are the device's (device.h, device_step.h).
std::span<const KernelEntry> cuda_kernels();
// The kernels that this GPU can run.
std::span<const KernelEntry> cuda_kernels_of(const Device& device);

// One of several ways to compute a product. A kernel chooses one by the shape; all give the same
// bits. For benchmarks and tests.
struct KernelVariant {
  DType weight = DType::kNone;
  int tile_rows = 0;
  KernelFn run = nullptr;
  const char* name = nullptr;
};
// The variants of "linear_wgmma_..._cuda"; none on a GPU that cannot run them.
std::span<const KernelVariant> wgmma_variants_of(const Device& device);
// The variants of "expert_linear_wgmma_..._cuda".
std::span<const KernelVariant> expert_variants_of(const Device& device);
// The variants of "linear_bf16_amx" and "linear_q8c_amx", with names; none in a build without AMX.
// They take any number of rows, and the scratch and packed weights of those kernels.
std::span<const KernelVariant> amx_variants();

// One of several ways to divide the work of "attention_wgmma_bf16_cuda" among blocks of threads.
struct AttentionVariant {
  const char* name = nullptr;
  KernelFn run = nullptr;
};
std::span<const AttentionVariant> attention_variants_of(const Device& device);

// The first row for these types whose ISA is at most `isa`, or null. A row's kNone matches any
// type.
const KernelEntry* find_kernel(std::span<const KernelEntry> table, Op op, DType weight,
                               DType activation, Isa isa);

// entry.scratch_bytes(), or 0 if it is null.
int64_t scratch_bytes(const KernelEntry& kernel, const KernelArgs& largest, int threads);

// The minimum that a call must move and compute: each operand once, a multiply-add as two flops.
struct KernelCost {
  int64_t bytes = 0;
  int64_t flops = 0;
};
KernelCost kernel_cost(const KernelEntry& kernel, const KernelArgs& args);

}  // namespace lockstep
