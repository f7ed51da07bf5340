// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "worker/kernels/cuda/target.h"
#include "worker/kernels/device.h"

namespace lockstep::LOCKSTEP_TARGET {

// Device::copy_each() within the device's memory. Null, or why it could not be started.
const char* copy_each(std::span<const RowCopy> copies, void* queue);

}  // namespace lockstep::LOCKSTEP_TARGET
