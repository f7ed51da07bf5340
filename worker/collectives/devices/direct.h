// SPDX-License-Identifier: Apache-2.0
// Collectives between devices that reach each other's memory: one kernel each, without a library.
#pragma once

#include <memory>

#include "worker/collectives/collective.h"
#include "worker/collectives/devices/peer_link.h"

namespace lockstep {

// Larger gathers use the other collective, which may be faster for them.
inline constexpr int64_t kMaxDirectGatherBytes = 512 << 10;  // Bytes of the largest part.

// all_reduce adds in rank order at every size, so it has the host's bits. Operands are on `link`'s
// device; all other collectives are done by `other`.
std::unique_ptr<Collective> direct_collective(std::unique_ptr<PeerLink> link,
                                              std::unique_ptr<Collective> other);

}  // namespace lockstep
