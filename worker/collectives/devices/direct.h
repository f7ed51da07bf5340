// SPDX-License-Identifier: Apache-2.0
// Collectives between devices that reach each other's memory: one kernel each, without a library.
#pragma once

#include <memory>

#include "worker/collectives/collective.h"
#include "worker/collectives/devices/peer_link.h"

namespace lockstep {

// Larger gathers use `other` of direct_collective(), which may be faster for them.
inline constexpr int64_t kMaxDirectGatherBytes = 512 << 10;  // Bytes of the largest part.

// all_reduce adds in rank order at every size, so sums have the same bits as through the host.
// Operands are on `link`'s device. All other collectives are done by `other`.
std::unique_ptr<Collective> direct_collective(std::unique_ptr<PeerLink> link,
                                              std::unique_ptr<Collective> other);

}  // namespace lockstep
