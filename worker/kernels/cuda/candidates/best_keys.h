// SPDX-License-Identifier: Apache-2.0
// The best 64 of any number of keys: each warp of a block keeps the best of the keys that it gets,
// then the warps' lists are merged. All keys differ and a larger one is better, so the result does
// not depend on which warp gets a key. 0 means no key.
#pragma once

#include <bit>

#include "worker/kernels/cuda/scalar.h"
#include "worker/kernels/cuda/warp.h"

namespace lockstep::LOCKSTEP_TARGET {

using Key = unsigned long long;

inline constexpr int kBest = 64;
inline constexpr int kLaneKeys = kBest / kWarp;  // A lane has numbers lane + kWarp * r of a list.

// One step of a bitonic network over a warp's list, which has parts of `size` numbers. Compares
// numbers i and i ^ stride. In the first, third, ... part the larger one goes first, and in the
// other parts the smaller one does. If kDescending is false, the two kinds of parts are exchanged.
template <bool kDescending>
__device__ void exchange_keys(Key (&list)[kLaneKeys], int size, int stride) {
  static_assert(kLaneKeys == 2);
  if (stride == kWarp) {
    const bool swaps = (list[0] < list[1]) == kDescending;
    const Key first = swaps ? list[1] : list[0];
    list[1] = swaps ? list[0] : list[1];
    list[0] = first;
    return;
  }
#pragma unroll
  for (int r = 0; r < kLaneKeys; ++r) {
    const int i = static_cast<int>(threadIdx.x % kWarp) + kWarp * r;
    const Key other = __shfl_xor_sync(kAllLanes, list[r], stride);
    const bool descends = ((i & size) == 0) == kDescending;
    const bool takes_larger = ((i & stride) == 0) == descends;
    list[r] = (list[r] > other) == takes_larger ? list[r] : other;
  }
}

// One warp's list. All lanes of the warp call its functions together.
class BestKeys {
 public:
  static constexpr int kWaiting = kBest + kWarp;  // A warp's part of `waiting`.

  // `waiting` is in shared memory: kWaiting keys for each warp of the block.
  __device__ explicit BestKeys(Key* waiting) : waiting_(waiting + threadIdx.x / kWarp * kWaiting) {}

  // Gets one key from each lane.
  __device__ void add(Key key) {
    const bool better = key > last_;
    const unsigned lanes = lanes_with(better);
    if (lanes == 0) return;
    const unsigned before = lanes & ((1u << threadIdx.x % kWarp) - 1);
    if (better) waiting_[count_ + std::popcount(before)] = key;
    count_ += std::popcount(lanes);
    if (count_ >= kBest) take();
  }

  // All threads of the block call this after their last add(). `best`, in shared memory, gets the
  // best keys of all warps in descending order, then 0s. Ends with __syncthreads().
  template <int kWarps>
  __device__ void merge(Key* best) {
    if (count_ > 0) take();
    const int warp = static_cast<int>(threadIdx.x / kWarp);
#pragma unroll
    for (int half = kWarps / 2; half > 0; half /= 2) {
      if (warp >= half && warp < 2 * half) store(waiting_);
      __syncthreads();
      if (warp >= half) continue;
      Key others[kLaneKeys];
      for (int r = 0; r < kLaneKeys; ++r) {
        others[r] = waiting_[half * kWaiting + kBest - 1 - number(r)];
      }
      merge_ascending(others);
    }
    if (warp == 0) store(best);
    __syncthreads();
  }

 private:
  __device__ static int number(int r) { return static_cast<int>(threadIdx.x % kWarp) + kWarp * r; }
  __device__ void store(Key* to) const {
    for (int r = 0; r < kLaneKeys; ++r) to[number(r)] = list_[r];
  }

  // Merges the last waiting keys, at most kBest, into the list.
  __device__ void take() {
    const int first = count_ > kBest ? count_ - kBest : 0;
    Key next[kLaneKeys];
    warp_meet();
    for (int r = 0; r < kLaneKeys; ++r) {
      next[r] = first + number(r) < count_ ? waiting_[first + number(r)] : 0;
    }
    warp_meet();  // All lanes have read: waiting keys may now be overwritten.
    count_ = first;
#pragma unroll
    for (int size = 2; size <= kBest; size *= 2) {
#pragma unroll
      for (int stride = size / 2; stride > 0; stride /= 2) {
        exchange_keys<false>(next, size, stride);
      }
    }
    merge_ascending(next);
  }

  __device__ void merge_ascending(const Key (&others)[kLaneKeys]) {
    for (int r = 0; r < kLaneKeys; ++r) list_[r] = Max::of(list_[r], others[r]);
#pragma unroll
    for (int stride = kBest / 2; stride > 0; stride /= 2) {
      exchange_keys<true>(list_, kBest, stride);
    }
    last_ = from_lane(list_[kLaneKeys - 1], kWarp - 1);
  }

  Key* waiting_;  // Keys that are better than `last_`, in no order.
  int count_ = 0;
  Key list_[kLaneKeys] = {0, 0};  // Descending.
  Key last_ = 0;                  // The last key of the list.
};

}  // namespace lockstep::LOCKSTEP_TARGET
