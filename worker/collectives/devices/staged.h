// SPDX-License-Identifier: Apache-2.0
// Collectives between devices through the host: copy out, a collective on the host, copy in. For
// ranks that share a GPU, and for hosts without NCCL.
#pragma once

#include <memory>

#include "worker/collectives/collective.h"
#include "worker/kernels/device.h"

namespace lockstep {

// Operands are on the device, which outlives the collective. Errors, abort() and waited() are those
// of `host`.
std::unique_ptr<Collective> staged_collective(std::unique_ptr<Collective> host, Device& device);

}  // namespace lockstep
