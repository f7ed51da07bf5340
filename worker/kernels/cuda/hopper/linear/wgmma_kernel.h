// SPDX-License-Identifier: Apache-2.0
// The kernel of linear_wgmma.cu and expert_linear_wgmma.cu, and its start.
#pragma once

#include "worker/kernels/cuda/hopper/linear/wgmma_tile.h"

namespace lockstep::LOCKSTEP_TARGET {

inline constexpr int kMultiprocessorsOfShim = 6;  // So few that blocks compute several tiles.
inline constexpr int kWgmmaTileRows[] = {64, 128, 176, 192, 208};
// Codes leave no registers for larger tiles.
constexpr int max_tile_rows(DType weight) { return quantization(weight) ? 192 : 208; }

// The blocks that compute one tile of rows.
constexpr int64_t wgmma_blocks(int64_t cols) {
  return (device::stripes_of(cols) + kBlockStripes - 1) / kBlockStripes;
}

template <DType kWeight, typename T, int kTileRows, typename Work>
__device__ void multiply_tiles(const Work& work, const WgmmaShared<kWeight, kTileRows>& shared) {
  const Product& product = work.product;
  const int clusters = static_cast<int>(gridDim.x) / kCluster;
  const WgmmaTiles tiles = work.tiles();
  WgmmaTile<kWeight, T, kTileRows> own(shared, static_cast<int>(threadIdx.x) - kWarpgroup);
  for (int tile = static_cast<int>(blockIdx.x) / kCluster; tile < tiles.count(); tile += clusters) {
    const WgmmaTiles::Place place = tiles.place(tile);
    const int stripe = place.stripe + cluster_rank() * kBlockStripes + own.warp;
    own.load_head(product, work.rows(place.tile_row).matrix, stripe);
    own.add_units(product.units());
    const TileRows rows = work.rows(place.tile_row);
    if (Work::kPairs && product.in_pairs()) {
      own.store_pairs(product, stripe, rows.begin);
    } else {
      own.store(work, rows, stripe);
    }
  }
}

template <DType kWeight, typename T, int kTileRows, typename Work>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(kWgmmaThreads, 1)
    wgmma_kernel(const __grid_constant__ TensorMap weights, const __grid_constant__ TensorMap x,
                 const __grid_constant__ Work work) {
  using Shared = WgmmaShared<kWeight, kTileRows>;
  const Shared shared{(dynamic_shared_address() + 1023) / 1024 * 1024};
  if (threadIdx.x == 0) {
    prefetch_map(weights);
    prefetch_map(x);
    for (int stage = 0; stage < Shared::kStages; ++stage) {
      barrier_init(shared.full(stage), 1);
      barrier_init(shared.empty(stage), 2 * kWarpgroup / kWarp * kCluster);
    }
    publish_barriers();
  }
  __syncthreads();
  cluster_meet();
  if (threadIdx.x < kWarpgroup) {
    fewer_registers<24>();
    if (threadIdx.x == 0) {
      bring_tiles<kWeight, kTileRows>(weights, x, work, shared);
    }
  } else {
    more_registers<240>();
    multiply_tiles<kWeight, T, kTileRows>(work, shared);
  }
  // A block must not end while the other one still copies to it or arrives at its barriers.
  warp_meet();
  cluster_meet();
}

inline int wgmma_tiles_of_cols(const Product& product) {
  return static_cast<int>((wgmma_blocks(product.cols()) + kCluster - 1) / kCluster);
}

// Queues the product. The weight has `matrices` matrices; there are at most `max_tiles` tiles.
template <DType kWeight, typename T, int kTileRows, typename Work>
const char* start_wgmma(const Work& work, int64_t matrices, int64_t max_tiles, void* queue) {
  using Bytes = device::FragmentBytes<kWeight>;
  using Shared = WgmmaShared<kWeight, kTileRows>;
  const Product& product = work.product;
  const int64_t depth = product.x.cols;
  TensorMap weights, x;
  const char* failure = make_map({.data = product.weight + Bytes::kHead,
                                  .cols = device::units_of(depth) * Bytes::kUnit / 8,
                                  .rows = matrices * device::stripes_of(product.cols()),
                                  .row_bytes = Bytes::stripe(depth),
                                  .tile_cols = Shared::kUnit / 8,
                                  .tile_rows = kBlockStripes,
                                  .element_bytes = 8},
                                 &weights);
  if (failure != nullptr) return failure;
  failure = make_map({.data = product.x.data,
                      .cols = depth,
                      .rows = product.x.rows,
                      .row_bytes = product.x.stride * 2,
                      .tile_cols = static_cast<int>(device::kUnitDepth),
                      .tile_rows = kTileRows / kCluster},
                     &x);
  if (failure != nullptr) return failure;
  const int64_t clusters = min(max_tiles, processors(kMultiprocessorsOfShim) / kCluster);
  return launch_clusters(wgmma_kernel<kWeight, T, kTileRows, Work>, clusters, kCluster,
                         kWgmmaThreads, Shared::kBytes, queue, weights, x, work);
}

// call(std::integral_constant<int, tile_rows>()).
template <DType kWeight, typename Call>
const char* with_tile_rows(int tile_rows, const Call& call) {
  switch (tile_rows) {
    case 64:
      return call(std::integral_constant<int, 64>());
    case 128:
      return call(std::integral_constant<int, 128>());
    case 176:
      return call(std::integral_constant<int, 176>());
    case 192:
      return call(std::integral_constant<int, 192>());
    default:
      if constexpr (max_tile_rows(kWeight) == 208) {
        return call(std::integral_constant<int, 208>());
      }
      return "no such tile";
  }
}

}  // namespace lockstep::LOCKSTEP_TARGET
