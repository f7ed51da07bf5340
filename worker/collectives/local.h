// SPDX-License-Identifier: Apache-2.0
// Collectives that need no meeting: between threads of one process, and for a single rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/collectives/collective.h"
#include "worker/collectives/host/shared_memory.h"

namespace lockstep {

// One per rank, each for one thread. They share their memory and may end in any order. One rank
// shares nothing. At most kMaxRegionRanks. shared() has `shared_bytes`.
std::vector<std::unique_ptr<Collective>> local_collectives(
    int ranks, std::chrono::nanoseconds timeout = kCollectiveTimeout, int64_t shared_bytes = 0);

// For a group of one: all_gather copies its columns to their place, all_reduce does nothing.
std::unique_ptr<Collective> single_collective();

}  // namespace lockstep
