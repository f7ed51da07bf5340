// SPDX-License-Identifier: Apache-2.0
// Functions that all lanes of a warp call together: CUDA's on a GPU, emulated over the shim.
#pragma once

#include "worker/kernels/cuda/target.h"

namespace lockstep::LOCKSTEP_TARGET {

inline constexpr unsigned kAllLanes = 0xffffffffu;

// Returns when all lanes have called it. Each then sees what the others wrote to shared memory.
__device__ inline void warp_meet() {
#ifdef __CUDACC__
  __syncwarp();
#else
  constexpr std::byte kHere{};
  shim::give(&kHere, sizeof(kHere));
#endif
}

// Bit `lane` is set if that lane's value is true.
__device__ inline unsigned lanes_with(bool value) {
#ifdef __CUDACC__
  return __ballot_sync(kAllLanes, value);
#else
  shim::give(&value, sizeof(value));
  unsigned lanes = 0;
  for (int lane = 0; lane < kWarp; ++lane) {
    lanes |= static_cast<unsigned>(*static_cast<const bool*>(shim::given(lane))) << lane;
  }
  return lanes;
#endif
}

// The value that lane `lane` passes.
template <typename T>
__device__ T from_lane(T value, int lane) {
#ifdef __CUDACC__
  return __shfl_sync(kAllLanes, value, lane);
#else
  shim::give(&value, sizeof(value));
  return *static_cast<const T*>(shim::given(lane));
#endif
}

}  // namespace lockstep::LOCKSTEP_TARGET
