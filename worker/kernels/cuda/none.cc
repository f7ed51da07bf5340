// SPDX-License-Identifier: Apache-2.0
// Replaces table.cc and device.cc in a build without CUDA.
#include "worker/kernels/device.h"
#include "worker/kernels/find.h"

namespace lockstep {

std::span<const KernelEntry> cuda_kernels() { return {}; }
std::span<const KernelEntry> cuda_kernels_of(const Device&) { return {}; }
std::span<const KernelVariant> wgmma_variants_of(const Device&) { return {}; }
std::span<const KernelVariant> expert_variants_of(const Device&) { return {}; }
std::span<const AttentionVariant> attention_variants_of(const Device&) { return {}; }

std::vector<CudaDeviceInfo> cuda_devices(std::string* problem) {
  *problem = "this build has no CUDA; build it with -DLOCKSTEP_CUDA=ON";
  return {};
}

std::string cuda_driver_version() { return ""; }

std::unique_ptr<Device> open_cuda_device(int, std::string* problem) {
  cuda_devices(problem);
  return nullptr;
}

}  // namespace lockstep
