// SPDX-License-Identifier: Apache-2.0
// Collectives that need no meeting: between threads of one process, and of a rank that is alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/collectives/collective.h"
#include "worker/collectives/host/shared_memory.h"

namespace lockstep {

// One a rank, to be used by one thread each. They share their memory and may end in any order.
// With one rank nothing is shared. At most kMaxRegionRanks. shared() has `shared_bytes`.
std::vector<std::unique_ptr<Collective>> local_collectives(
    int ranks, std::chrono::nanoseconds timeout = kCollectiveTimeout, int64_t shared_bytes = 0);

// For a group of one: all_gather copies its columns to their place, all_reduce does nothing.
std::unique_ptr<Collective> single_collective();

}  // namespace lockstep
