// SPDX-License-Identifier: Apache-2.0
// Runs a device's kernel on operands in the host's memory: copies everything that they and the
// attributes point to, with exact sizes, and copies back what the kernel wrote.
#pragma once

#include <string>

#include "worker/kernels/device.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

// Returns an empty string, or the error.
std::string run_on_device(Device& device, const KernelEntry& kernel, KernelArgs args);

}  // namespace lockstep
