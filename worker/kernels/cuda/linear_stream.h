// SPDX-License-Identifier: Apache-2.0
// The product for few rows: it takes as long as reading the weights does. A warp reads kStripes of
// them over one slice of K straight into registers, some units ahead, and x from the cache; a
// block's warps have different slices of the same stripes, and add them up in shared memory.
#pragma once

#include "worker/kernels/cuda/streamed_slice.h"

namespace lockstep::LOCKSTEP_TARGET {

inline constexpr int kMaxStreamWarps = 8;

// What a block has to do. Blocks of the same stripes run beside one another, so that memory is read
// once for all rows.
template <int kStripes, int kTiles>
struct StreamPlace {
  static constexpr int64_t kRows = kTiles * 8;
  int first_stripe;
  int64_t first_row;

  static constexpr int64_t parts(int64_t rows) { return (rows + kRows - 1) / kRows; }

  __device__ explicit StreamPlace(const Product& product) {
    const auto of_rows = static_cast<unsigned>(parts(product.out.rows));
    first_stripe = static_cast<int>(blockIdx.x / of_rows) * kStripes;
    first_row = blockIdx.x % of_rows * kRows;
  }
};

// Adds the partial sums of `count` slices in their order to `totals`, which nobody has written
// before the first round and which are stored in the last one.
template <int kStripes, int kTiles>
__device__ void add_partials(const Product& product, const StreamPlace<kStripes, kTiles>& place,
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

// Shared memory: the sums of each warp, then the totals.
template <DType kWeight, typename T, int kStripes, int kTiles>
__global__ void __launch_bounds__(kMaxStreamWarps* kWarp) stream_kernel(Product product) {
  constexpr int kSums = kStreamSums<kStripes, kTiles>;
  constexpr int kUnits = static_cast<int>(device::kSliceUnits);
  auto* partials = reinterpret_cast<float*>(dynamic_shared());
  const StreamPlace<kStripes, kTiles> place(product);
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
    add_partials(product, place, partials, end - begin, partials + warps * kSums, begin == 0,
                 end == slices);
    __syncthreads();  // The partial sums' memory is free again.
    begin += warps;
  } while (begin < slices);
}

}  // namespace lockstep::LOCKSTEP_TARGET
