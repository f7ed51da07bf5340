// SPDX-License-Identifier: Apache-2.0
// Collectives between devices that reach each other's memory: one kernel each, without a library.
#pragma once

#include <memory>

#include "worker/collectives/collective.h"
#include "worker/collectives/devices/peer_link.h"

namespace lockstep {

// Gathers of more go by the other collective, which may move them in better ways.
inline constexpr int64_t kMaxDirectGatherBytes = 512 << 10;  // Of the rank that gives the most.

// all_reduce adds in rank order, whatever the sizes: the bits of the host's. Operands are on
// `link`'s device; what is not done there goes by `other`.
std::unique_ptr<Collective> direct_collective(std::unique_ptr<PeerLink> link,
                                              std::unique_ptr<Collective> other);

}  // namespace lockstep
