// SPDX-License-Identifier: Apache-2.0
// The product for many rows on compute capability 9.0. A block has one warpgroup that starts copies
// into a ring of stages, and two that multiply. Each of these two computes 64 columns of the
// product for kTileRows rows of x. It loads weights into registers, and reads x from shared memory.
// Two blocks are a cluster: they compute different columns of the same rows, and each copies half
// of the rows for both. Blocks are persistent: they take one tile after another. A warp's sums have
// the order of linear_mma.cu, and so its bits.
//
// The template parameter Work is a type that says which rows and which matrix a tile has:
// LinearWork, or that of expert_linear_wgmma.cu. Its members are
//   kPairs              false: sums are never in pairs.
//   product             All rows of x and of the output; the weight and bias of the first matrix.
//   tiles()             The tiles and their order.
//   rows(i)             The TileRows of the tiles of number i in the direction of rows.
//   column(row, col)    A column of the output: at(i) is its number for row `row` + i of x.
#pragma once

#include "worker/kernels/cuda/hopper/tensor_map.h"
#include "worker/kernels/cuda/linear/linear_product.h"

namespace lockstep::LOCKSTEP_TARGET {

inline constexpr int kWgmmaThreads = 3 * kWarpgroup;
inline constexpr int kCluster = 2;
inline constexpr int kBlockStripes = 8;
inline constexpr int kClusterStripes = kCluster * kBlockStripes;

// The tiles of a product; a cluster computes one at a time.
struct WgmmaTiles {
  int of_cols;
  int of_rows;

  // Tiles are ordered in groups. A group is kGroup tiles of columns: first all of them for the
  // first rows, then all of them for the next rows, and so on. So each weight is read once for all
  // rows, and x stays in the cache meanwhile.
  static constexpr int kGroup = 8;
  struct Place {
    int stripe;
    int tile_row;
  };
  __device__ int count() const { return of_cols * of_rows; }
  __device__ Place place(int tile) const {
    const int group = tile / (kGroup * of_rows), in_group = tile - group * kGroup * of_rows;
    const int left = of_cols - group * kGroup, cols = left < kGroup ? left : kGroup;
    return {.stripe = (group * kGroup + in_group % cols) * kClusterStripes,
            .tile_row = in_group / cols};
  }
};

// The rows of x that a tile computes, and the number of the matrix that multiplies them. Rows after
// `count` may be loaded, but are not stored.
struct TileRows {
  int matrix;
  int begin;
  int count;
};

// The shared memory of a block, from a multiple of 1024 on: x of all stages, weights of all stages,
// barriers, and kOwn numbers of each multiplying thread.
template <DType kWeight, int kTileRows>
struct WgmmaShared {
  static constexpr int kUnit = static_cast<int>(device::FragmentBytes<kWeight>::kUnit);
  static constexpr int kX = kTileRows * 128, kWeights = kBlockStripes * kUnit;
  static constexpr int kStageBytes = kX + kWeights;
  static constexpr int kOwn = 8;  // float32 numbers of a thread.
  static constexpr int kRest = 1024 + kOwn * 2 * kWarpgroup * 4;
  static constexpr int kMaxStages = 8;
  static constexpr int kThatFit = (kMaxWgmmaSharedBytes - kRest - kMaxStages * 16) / kStageBytes;
  static constexpr int kStages = kThatFit < kMaxStages ? kThatFit : kMaxStages;
  static constexpr int kBarriersAt = kStages * kStageBytes, kOwnAt = kBarriersAt + kStages * 16;
  static constexpr int64_t kBytes = kStages * kStageBytes + kStages * 16 + kRest;
  static_assert(kX % 1024 == 0 && kWeights % 128 == 0 && kStages >= 3);

  SharedAddress begin;

  __device__ SharedAddress x(int stage) const { return begin + stage * kX; }
  __device__ SharedAddress weights(int stage) const {
    return begin + kStages * kX + stage * kWeights;
  }
  __device__ SharedAddress full(int stage) const { return begin + kBarriersAt + stage * 16; }
  __device__ SharedAddress empty(int stage) const { return full(stage) + 8; }
  __device__ SharedAddress own() const { return begin + kOwnAt; }
};

// The thread that starts all copies of a block.
template <DType kWeight, int kTileRows, typename Work>
__device__ void bring_tiles(const TensorMap& weights, const TensorMap& x, const Work& work,
                            const WgmmaShared<kWeight, kTileRows>& shared) {
  using Shared = WgmmaShared<kWeight, kTileRows>;
  const int rank = cluster_rank(), clusters = static_cast<int>(gridDim.x) / kCluster;
  const int units = work.product.units();
  const WgmmaTiles tiles = work.tiles();
  RingPlace<Shared::kStages> at;
  for (int tile = static_cast<int>(blockIdx.x) / kCluster; tile < tiles.count(); tile += clusters) {
    const WgmmaTiles::Place place = tiles.place(tile);
    const TileRows rows = work.rows(place.tile_row);
    const int stripe = rows.matrix * work.product.stripes() + place.stripe + rank * kBlockStripes;
    const int row = rows.begin + rank * kTileRows / kCluster;
#pragma unroll 1
    for (int unit = 0; unit < units; ++unit) {
      const SharedAddress full = shared.full(at.stage);
      barrier_wait_cluster(shared.empty(at.stage), at.parity ^ 1);
      barrier_expect(full, Shared::kStageBytes);
      load_tile(shared.weights(at.stage), weights, unit * (Shared::kUnit / 8), stripe, full);
      load_shared_tile(shared.x(at.stage) + rank * (Shared::kX / kCluster), x, unit * 64, row, full,
                       (1 << kCluster) - 1);
      at.advance();
    }
  }
}

}  // namespace lockstep::LOCKSTEP_TARGET
