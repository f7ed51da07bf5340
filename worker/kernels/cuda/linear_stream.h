// SPDX-License-Identifier: Apache-2.0
// The product for few rows: it takes as long as reading the weights does. A warp reads kStripes of
// them over one slice of K straight into registers, some units ahead, and x from the cache; a
// block's warps have different slices of the same stripes, and add them up in shared memory.
#pragma once

#include "worker/kernels/cuda/streamed_slice.h"

namespace lockstep::LOCKSTEP_TARGET {

inline constexpr int kMaxStreamWarps = 8;

// The weights and rows that a block multiplies: kStripes stripes, kTiles * 8 rows of x.
struct StreamPlace {
  int first_stripe;
  int64_t first_row;
};

// Adds the partial sums of `count` slices in their order to `totals`, which nobody has written
// before the first round and which are stored in the last one.
template <int kStripes, int kTiles>
__device__ void add_partials(const Product& product, const StreamPlace& place,
                             const float* partials, int count, float* totals, bool first,
                             bool last) {
  constexpr int kSums = kStreamSums<kStripes, kTiles>;
  for (int at = static_cast<int>(threadIdx.x); at < kSums; at += static_cast<int>(blockDim.x)) {
    float total = first ? 0.0f : totals[at];
    for (int i = 0; i < count; ++i) total = total + partials[i * kSums + at];
    if (!last) {
      totals[at] = total;
      continue;
    }
    const int lane = at % kWarp, i = at / kWarp % 4, tile = at / (4 * kWarp) % kTiles;
    const int stripe = place.first_stripe + at / (4 * kWarp * kTiles);
    product.store(place.first_row + tile * 8 + lane % 4 * 2 + i % 2,
                  stripe * device::kStripeRows + i / 2 * 8 + lane / 4, total);
  }
}

// The work of a block, whose shared memory is the sums of each warp, then the totals.
template <DType kWeight, typename T, int kStripes, int kTiles>
__device__ void stream_block(const Product& product, const StreamPlace& place) {
  constexpr int kSums = kStreamSums<kStripes, kTiles>;
  constexpr int kUnits = static_cast<int>(device::kSliceUnits);
  auto* partials = reinterpret_cast<float*>(dynamic_shared());
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp, slices = product.slices();
  int begin = 0;
  do {
    if (begin + warp < slices) {
      StreamedSlice<kWeight, T, kStripes, kTiles> slice(product, place.first_stripe,
                                                        place.first_row, lane);
      const int first = (begin + warp) * kUnits;
      slice.add(first, min(first + kUnits, product.units()));
      slice.give(partials + warp * kSums);
    }
    __syncthreads();
    const int end = min(begin + warps, slices);
    add_partials<kStripes, kTiles>(product, place, partials, end - begin, partials + warps * kSums,
                                   begin == 0, end == slices);
    __syncthreads();  // The partial sums' memory is free again.
    begin += warps;
  } while (begin < slices);
}

// How many warps a block has, and its shared memory, for so many columns of x.
struct StreamBlock {
  int warps;
  int64_t shared_bytes;
};
template <int kStripes, int kTiles>
StreamBlock stream_block_of(int64_t depth) {
  const int64_t slices = device::slices_of(depth);
  const int64_t rounds = (slices + kMaxStreamWarps - 1) / kMaxStreamWarps;
  const int64_t warps = rounds == 0 ? 1 : (slices + rounds - 1) / rounds;
  const int64_t sums = warps + (rounds > 1 ? 1 : 0);
  constexpr int64_t kSumBytes = kStreamSums<kStripes, kTiles> * 4;
  static_assert((kMaxStreamWarps + 1) * kSumBytes <= kMaxSharedBytes);
  return {static_cast<int>(warps), sums * kSumBytes};
}

}  // namespace lockstep::LOCKSTEP_TARGET
