// SPDX-License-Identifier: Apache-2.0
// Runs a device's kernel on operands in the host's memory: everything that they and the attributes
// point to is copied there, to the byte, and what the kernel wrote comes back.
#pragma once

#include <string>

#include "worker/kernels/device.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

// Empty, or what went wrong.
std::string run_on_device(Device& device, const KernelEntry& kernel, KernelArgs args);

}  // namespace lockstep
