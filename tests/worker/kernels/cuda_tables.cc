// SPDX-License-Identifier: Apache-2.0
// The kernels of .cu files: over the shim on every machine, and on the GPU if there is one. On a
// GPU of compute capability 9.0, kernels on tensor cores must have the shim's bits.
#include <gtest/gtest.h>

#include "tests/worker/kernels/run_on_device.h"
#include "tests/worker/kernels/run_on_host.h"
#include "tests/worker/kernels/tables.h"
#include "worker/kernels/cuda/shim/shim.h"
#include "worker/kernels/cuda/shim/table.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

// Null: there is no GPU.
TrackedDevice* gpu() {
  static const std::unique_ptr<TrackedDevice> device = []() -> std::unique_ptr<TrackedDevice> {
    std::string problem;
    std::unique_ptr<Device> opened = open_cuda_device(0, &problem);
    if (opened == nullptr) return nullptr;
    return std::make_unique<TrackedDevice>(std::move(opened), /*readable=*/false);
  }();
  return device.get();
}

TrackedDevice& shim_device() {
  static TrackedDevice device(host_device(), /*readable=*/true);
  return device;
}

// The shim has the tensor cores of compute capability 9.0.
bool gpu_has_the_shims_bits() {
  static const bool has = [] {
    std::string problem;
    const std::vector<CudaDeviceInfo> devices = cuda_devices(&problem);
    return !devices.empty() && devices[0].major == 9 && devices[0].minor == 0;
  }();
  return has;
}

// The shim's kernel from the same source, if that multiplies on tensor cores; else null.
const KernelEntry* twin_of(const KernelEntry& kernel) {
  const std::string name = kernel.name;
  const bool attends = name.find("attention_") != std::string::npos;
  const bool multiplies =
      name.find("mma_") != std::string::npos || (attends && kernel.weight != DType::kF32);
  for (const KernelEntry& entry : cuda_shim_kernels()) {
    if (multiplies && entry.name == name + "_shim") return &entry;
  }
  return nullptr;
}

std::span<const KernelEntry> gpu_kernels() {
  if (gpu() == nullptr) return {};
  return cuda_kernels_of(*gpu());
}

template <typename Entry>
bool is_in(std::span<const Entry> table, const KernelEntry& kernel) {
  for (const Entry& entry : table) {
    if (entry.run == kernel.run) return true;
  }
  return false;
}

bool is_of_gpu(const KernelEntry& kernel) {
  return gpu() != nullptr &&
         (is_in(gpu_kernels(), kernel) || is_in(wgmma_variants_of(*gpu()), kernel) ||
          is_in(expert_variants_of(*gpu()), kernel) ||
          is_in(attention_variants_of(*gpu()), kernel));
}

// Runs alternate between the two orders of threads, so bits that depend on the order differ.
void run_on_shim(const KernelEntry& kernel, const KernelArgs& args) {
  static int runs = 0;
  shim::set_order(++runs % 2 == 0 ? shim::Order::kAscending : shim::Order::kDescending);
  EXPECT_EQ(run_on_device(shim_device(), kernel, args), "") << kernel.name;
}

}  // namespace

std::vector<KernelEntry> kernels_under_test() {
  std::vector<KernelEntry> found(gpu_kernels().begin(), gpu_kernels().end());
  found.insert(found.end(), cuda_shim_kernels().begin(), cuda_shim_kernels().end());
  return found;
}

void run(const KernelEntry& kernel, KernelArgs args, int threads) {
  if (is_in(cuda_shim_kernels(), kernel)) return run_on_shim(kernel, args);
  if (!is_of_gpu(kernel)) return run_on_host(kernel, args, threads);
  const KernelEntry* twin = gpu_has_the_shims_bits() ? twin_of(kernel) : nullptr;
  ASSERT_EQ(twin == nullptr ? run_on_device(*gpu(), kernel, args)
                            : run_with_twin({*gpu(), kernel}, {shim_device(), *twin}, args),
            "")
      << kernel.name;
}

bool has_cpu_bits(const KernelEntry& kernel) {
  if (!is_in(cuda_shim_kernels(), kernel) && !is_in(gpu_kernels(), kernel)) return true;
  switch (kernel.op) {
    case Op::kLinear:
    case Op::kGatedLinear:
    case Op::kExpertLinear:
    case Op::kAttention:
    case Op::kRopeAttention:
    case Op::kRmsNorm:
    case Op::kLayerNorm:
    case Op::kHeadNorm:
    case Op::kAddNorm:
    case Op::kDeltaRule:
      return false;
    default:
      return true;
  }
}

}  // namespace lockstep
