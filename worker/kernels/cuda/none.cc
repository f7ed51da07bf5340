// SPDX-License-Identifier: Apache-2.0
// In place of table.cc and device.cc in a build without CUDA.
#include "worker/kernels/device.h"
#include "worker/kernels/find.h"

namespace lockstep {

std::span<const KernelEntry> cuda_kernels() { return {}; }

int cuda_device_count(std::string* problem) {
  *problem = "this build has no CUDA; build it with -DLOCKSTEP_CUDA=ON";
  return 0;
}

std::unique_ptr<Device> open_cuda_device(int, std::string* problem) {
  cuda_device_count(problem);
  return nullptr;
}

}  // namespace lockstep
