// SPDX-License-Identifier: Apache-2.0
// The kernels of .cu files: over the shim on every machine, and on the GPU if there is one.
#include <gtest/gtest.h>

#include "tests/worker/kernels/run_on_device.h"
#include "tests/worker/kernels/run_on_host.h"
#include "tests/worker/kernels/tables.h"
#include "worker/kernels/cuda/shim/shim.h"
#include "worker/kernels/cuda/shim/table.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

Device* gpu() {
  static std::string problem;
  static const std::unique_ptr<Device> device = open_cuda_device(0, &problem);
  return device.get();
}

bool is_in(std::span<const KernelEntry> table, const KernelEntry& kernel) {
  for (const KernelEntry& entry : table) {
    if (entry.run == kernel.run) return true;
  }
  return false;
}

// Runs alternate between the two orders of threads, so bits that depend on the order differ.
void run_on_shim(const KernelEntry& kernel, const KernelArgs& args) {
  static const std::unique_ptr<Device> device = host_device();
  static int runs = 0;
  shim::set_order(++runs % 2 == 0 ? shim::Order::kAscending : shim::Order::kDescending);
  EXPECT_EQ(run_on_device(*device, kernel, args), "") << kernel.name;
}

}  // namespace

std::vector<KernelEntry> kernels_under_test() {
  std::vector<KernelEntry> found;
  if (gpu() != nullptr) found.assign(cuda_kernels().begin(), cuda_kernels().end());
  found.insert(found.end(), cuda_shim_kernels().begin(), cuda_shim_kernels().end());
  return found;
}

void run(const KernelEntry& kernel, KernelArgs args, int threads) {
  if (is_in(cuda_shim_kernels(), kernel)) return run_on_shim(kernel, args);
  if (!is_in(cuda_kernels(), kernel)) return run_on_host(kernel, args, threads);
  ASSERT_EQ(run_on_device(*gpu(), kernel, args), "") << kernel.name;
}

bool has_cpu_bits(const KernelEntry& kernel) {
  if (!is_in(cuda_shim_kernels(), kernel) && !is_in(cuda_kernels(), kernel)) return true;
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
