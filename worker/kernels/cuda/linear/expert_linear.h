// SPDX-License-Identifier: Apache-2.0
// expert_linear on tensor cores, and the routes in the order of experts, which a call sorts into
// its scratch (sizes.h).
#pragma once

#include "worker/kernels/cuda/sizes.h"
#include "worker/kernels/cuda/target.h"

namespace lockstep::LOCKSTEP_TARGET {

// Arrays of the device.
struct SortedRoutes {
  int64_t max_tiles;          // By the numbers of routes and experts.
  int32_t* order;             // The route of each sorted row; -1: there is no such row.
  int32_t* tile_count;        // One number.
  device::ExpertTile* tiles;  // max_tiles; those after the first tile_count have no rows.
  std::byte* rows;            // Memory for the sorted rows of x.
};

// Queues the sorting into tiles of up to tile_rows rows. Null, or why it could not be started.
const char* sort_routes(const KernelArgs& args, int64_t tile_rows, SortedRoutes* sorted);

template <DType kWeight>
const char* expert_linear_mma(const KernelArgs& args);

}  // namespace lockstep::LOCKSTEP_TARGET
