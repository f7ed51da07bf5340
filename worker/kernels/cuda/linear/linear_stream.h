// SPDX-License-Identifier: Apache-2.0
// The product for few rows, which takes as long as reading the weights. A warp processes kStripes
// stripes of weights over one slice of K. It loads weights straight into registers, some units
// before it multiplies them, and reads x from the cache. A block's warps have different slices of
// the same stripes, and add their sums in shared memory.
#pragma once

#include "worker/kernels/cuda/linear/streamed_slice.h"

namespace lockstep::LOCKSTEP_TARGET {

inline constexpr int kMaxStreamWarps = 8;

// The first of the kStripes stripes, and of the kTiles * 8 rows of x, that a block multiplies.
struct StreamPlace {
  int first_stripe;
  int64_t first_row;
};

// The partial sums of `count` slices, which are added in order to `totals`. If `first`, `totals`
// are undefined and count as zeros.
template <int kSums>
struct Partials {
  const float* of_slices;
  int count;
  const float* totals;
  bool first;

  __device__ float total(int at) const {
    float total = first ? 0.0f : totals[at];
    for (int i = 0; i < count; ++i) total = total + of_slices[i * kSums + at];
    return total;
  }
};

// The place of one sum of the block: its row of x, and its row of the weight, which stripe, number
// and group give.
template <int kTiles>
struct SumPlace {
  int number;  // The sum's number in C (mma.h).
  int64_t row;
  int stripe;
  int group;

  __device__ SumPlace(const StreamPlace& place, int at)
      : number(at / kWarp % 4),
        row(place.first_row + at / (4 * kWarp) % kTiles * 8 + at % 4 * 2 + number % 2),
        stripe(place.first_stripe + at / (4 * kWarp * kTiles)),
        group(at % kWarp / 4) {}
};

template <int kStripes, int kTiles>
__device__ void store_sums(const Product& product, const StreamPlace& place,
                           const Partials<kStreamSums<kStripes, kTiles>>& partials) {
  constexpr int kSums = kStreamSums<kStripes, kTiles>;
  for (int at = static_cast<int>(threadIdx.x); at < kSums; at += static_cast<int>(blockDim.x)) {
    const SumPlace<kTiles> sum(place, at);
    product.store(sum.row, sum.stripe * device::kStripeRows + sum.number / 2 * 8 + sum.group,
                  partials.total(at));
  }
}

// Numbers 0 and 2 of a lane's C are a pair, and so are 1 and 3.
template <int kStripes, int kTiles>
__device__ void store_pairs(const Product& product, const StreamPlace& place,
                            const Partials<kStreamSums<kStripes, kTiles>>& partials) {
  constexpr int kPairs = kStreamSums<kStripes, kTiles> / 2, kBoth = 2 * kWarp;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kPairs; i += static_cast<int>(blockDim.x)) {
    const int at = i / kBoth * 2 * kBoth + i % kBoth;
    const SumPlace<kTiles> sum(place, at);
    product.store_pair(sum.row, sum.stripe * device::kStripeRows / 2 + sum.group,
                       partials.total(at), partials.total(at + kBoth));
  }
}

// The work of a block. Its shared memory has the sums of each warp, then the totals.
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
    float* const totals = partials + warps * kSums;
    const Partials<kSums> round{partials, end - begin, totals, begin == 0};
    if (end < slices) {
      for (int at = static_cast<int>(threadIdx.x); at < kSums; at += warps * kWarp) {
        totals[at] = round.total(at);
      }
    } else if (product.in_pairs()) {
      store_pairs<kStripes, kTiles>(product, place, round);
    } else {
      store_sums<kStripes, kTiles>(product, place, round);
    }
    __syncthreads();  // The partial sums' memory may be reused.
    begin += warps;
  } while (begin < slices);
}

// A block's number of warps and its shared memory, for a number of columns of x.
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
