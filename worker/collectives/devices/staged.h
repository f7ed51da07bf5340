// SPDX-License-Identifier: Apache-2.0
// Collectives between devices by way of the host: out of the device, a collective of the host's,
// and in again. For ranks that share a GPU, and where NCCL is not to be had.
#pragma once

#include <memory>

#include "worker/collectives/collective.h"
#include "worker/kernels/device.h"

namespace lockstep {

// Operands of its collectives are on the device, which outlives it. Errors, abort() and waited()
// are the host's collective's.
std::unique_ptr<Collective> staged_collective(std::unique_ptr<Collective> host, Device& device);

}  // namespace lockstep
