// SPDX-License-Identifier: Apache-2.0
// The product for many rows: a block computes 128 columns for 128 rows. Units of its eight stripes
// and of its rows are copied to shared memory by cp.async, two units before they are multiplied.
// Each of eight warps has 2 stripes and 64 rows, with the slice's sums and the totals in registers.
#pragma once

#include "worker/kernels/cuda/linear/linear_tile_stage.h"

namespace lockstep::LOCKSTEP_TARGET {

template <DType kWeight, typename T>
struct WarpTile {
  static constexpr int kStripes = 2, kTiles = 8;
  int stripe;  // The warp's first stripe, among the block's.
  int row;
  int lane;
  WeightWords<kWeight> words[kStripes];
  float sums[kStripes][kTiles][4] = {};
  float totals[kStripes][kTiles][4] = {};

  __device__ explicit WarpTile(int thread)
      : stripe(thread / kWarp % 4 * kStripes),
        row(thread / kWarp / 4 * kTiles * 8),
        lane(thread % kWarp) {}

  __device__ void load_heads(const Product& product, int first_stripe) {
#pragma unroll
    for (int i = 0; i < kStripes; ++i) {
      const int at = min(first_stripe + stripe + i, product.stripes() - 1);
      words[i].load_head(
          product.weight + at * device::FragmentBytes<kWeight>::stripe(product.x.cols), lane);
    }
  }

  __device__ void add_unit(const std::byte* stage) {
    using Stage = TileStage<kWeight>;
#pragma unroll
    for (int i = 0; i < kStripes; ++i) {
      words[i].template load<false>(stage + (stripe + i) * Stage::kUnit, lane);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Words4 b[kTiles];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int place = Stage::x_place(row + tile * 8 + lane / 4, half * 4 + lane % 4);
        b[tile] = *reinterpret_cast<const Words4*>(stage + place);
      }
#pragma unroll
      for (int step = 2 * half; step < 2 * half + 2; ++step) {
        uint32_t a[kStripes][4];
#pragma unroll
        for (int i = 0; i < kStripes; ++i) words[i].words_of(step, a[i]);
        add_step<T>(sums, a, b, step);
      }
    }
  }

  template <typename F>
  __device__ void each(const F& f) {
#pragma unroll
    for (int i = 0; i < kStripes * kTiles * 4; ++i) f(i / (4 * kTiles), i / 4 % kTiles, i % 4);
  }
  __device__ void end_slice() {
    each([&](int s, int tile, int i) {
      totals[s][tile][i] = totals[s][tile][i] + sums[s][tile][i];
      sums[s][tile][i] = 0;
    });
  }
  __device__ void store(const Product& product, const TilePlace& place) {
    each([&](int s, int tile, int i) {
      product.store(
          place.first_row + row + tile * 8 + lane % 4 * 2 + i % 2,
          int64_t{place.first_stripe + stripe + s} * device::kStripeRows + i / 2 * 8 + lane / 4,
          totals[s][tile][i]);
    });
  }
  // Copies the totals to `own`, the thread's part of shared memory, which a loop can index. A loop
  // over registers must be unrolled, and would contain the code of the function 32 times.
  __device__ void store_pairs(const Product& product, const TilePlace& place, float* own) {
#pragma unroll
    for (int s = 0; s < kStripes; ++s) {
#pragma unroll
      for (int i = 0; i < kTiles * 4; ++i) own[i * kTileThreads] = totals[s][i / 4][i % 4];
      const int64_t col =
          int64_t{place.first_stripe + stripe + s} * device::kStripeRows / 2 + lane / 4;
#pragma unroll 1
      for (int i = 0; i < kTiles * 2; ++i) {
        const float* const pair = own + (i / 2 * 4 + i % 2) * kTileThreads;
        product.store_pair(place.first_row + row + i / 2 * 8 + lane % 4 * 2 + i % 2, col, pair[0],
                           pair[2 * kTileThreads]);
      }
    }
  }
};

template <DType kWeight, typename T>
__global__ void __launch_bounds__(kTileThreads) tile_kernel(Product product) {
  constexpr int kUnits = static_cast<int>(device::kSliceUnits);
  constexpr int kBytes = TileStage<kWeight>::kBytes;
  std::byte* const stages = dynamic_shared();
  const TilePlace place(product);
  const int units = product.units();
  WarpTile<kWeight, T> tile(static_cast<int>(threadIdx.x));
  tile.load_heads(product, place.first_stripe);
  for (int unit = 0; unit < kTileStages - 1; ++unit) {
    if (unit < units) fill_stage<kWeight>(product, place, unit, stages + unit * kBytes);
    commit_copies();
  }
  for (int unit = 0; unit < units; ++unit) {
    wait_copies<kTileStages - 2>();
    __syncthreads();  // The unit has arrived, and no thread reads the stage to fill next.
    const int next = unit + kTileStages - 1;
    if (next < units) {
      fill_stage<kWeight>(product, place, next, stages + next % kTileStages * kBytes);
    }
    commit_copies();
    tile.add_unit(stages + unit % kTileStages * kBytes);
    if ((unit + 1) % kUnits == 0 || unit + 1 == units) tile.end_slice();
  }
  if (!product.in_pairs()) return tile.store(product, place);
  static_assert(WarpTile<kWeight, T>::kTiles * 4 * kTileThreads * 4 <= kTileStages * kBytes);
  __syncthreads();  // The stages' memory may be reused.
  tile.store_pairs(product, place, reinterpret_cast<float*>(stages) + threadIdx.x);
}

}  // namespace lockstep::LOCKSTEP_TARGET
