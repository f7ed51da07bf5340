// SPDX-License-Identifier: Apache-2.0
// Collectives between threads of one process, which need no meeting.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "worker/collectives/host/region.h"
#include "worker/collectives/host/shared_memory.h"
#include "worker/collectives/single.h"

namespace lockstep {

// One collective per rank, each for use by one thread. They share one memory region, with
// `shared_bytes` for shared(), and may be destroyed in any order. A single rank needs no region.
// `ranks`: at most kMaxRegionRanks.
inline std::vector<std::unique_ptr<Collective>> local_collectives(
    int ranks, std::chrono::nanoseconds timeout = kCollectiveTimeout, int64_t shared_bytes = 0) {
  LOCKSTEP_CHECK(ranks >= 1);
  std::vector<std::unique_ptr<Collective>> group;
  if (ranks == 1) {
    group.push_back(single_collective());
    return group;
  }
  const std::shared_ptr<Region> region =
      Region::in_process({.ranks = ranks, .shared_bytes = shared_bytes});
  for (int rank = 0; rank < ranks; ++rank) {
    group.push_back(std::make_unique<SharedMemoryCollective>(region, rank, timeout));
  }
  return group;
}

}  // namespace lockstep
