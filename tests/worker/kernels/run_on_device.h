// SPDX-License-Identifier: Apache-2.0
// Runs a device's kernel on operands in the host's memory: copies everything that they and the
// attributes point to, with exact sizes, and copies back what the kernel wrote. A kernel is not run
// if one of its addresses is in host memory.
#pragma once

#include <string>

#include "tests/support/devices/tracked_device.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

// This function and run_with_twin() return an empty string, or the error.
std::string run_on_device(TrackedDevice& device, const KernelEntry& kernel, const KernelArgs& args);

struct DeviceKernel {
  TrackedDevice& device;
  const KernelEntry& kernel;
};
// Runs the same kernel on two devices. It is an error if its outputs or states differ in a byte.
std::string run_with_twin(const DeviceKernel& own, const DeviceKernel& twin,
                          const KernelArgs& args);

// Returns a text that names an address outside of the device's memory, or an empty string.
std::string host_pointer_of(const TrackedDevice& device, const KernelArgs& args);

}  // namespace lockstep
