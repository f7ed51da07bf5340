// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "worker/kernels/device.h"
#include "worker/kernels/peer_memory.h"

namespace lockstep::cuda {

// The access for the GPU with this index, whose memory is `device`'s.
std::unique_ptr<PeerAccess> peer_access(Device& device, int index);

}  // namespace lockstep::cuda
