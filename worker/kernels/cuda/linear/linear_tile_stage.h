// SPDX-License-Identifier: Apache-2.0
// A block's tile of linear_tile.h: its place in the product, and how its operands get into shared
// memory.
#pragma once

#include "worker/kernels/cuda/linear/linear_product.h"

namespace lockstep::LOCKSTEP_TARGET {

inline constexpr int kTileThreads = 256;
inline constexpr int kTileStripes = 8;
inline constexpr int kTileRows = 128;
inline constexpr int kTileStages = 3;
inline constexpr int kTileGroup = 8;  // Tiles of rows whose blocks run at the same time.

constexpr int64_t tiles_of_cols(int64_t cols) {
  constexpr int64_t kCols = kTileStripes * device::kStripeRows;
  return (cols + kCols - 1) / kCols;
}
constexpr int64_t tiles_of_rows(int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

// A stage: the stripes' units unchanged, then rows of 128 bytes. Odd rows have their halves
// exchanged, so that lanes use all banks: lanes 0 to 7, for example, read four neighbouring pieces
// of 16 bytes of each of two rows.
template <DType kWeight>
struct TileStage {
  static constexpr int kUnit = static_cast<int>(device::FragmentBytes<kWeight>::kUnit);
  static constexpr int kWeights = kTileStripes * kUnit;
  static constexpr int kRow = static_cast<int>(device::kUnitDepth) * 2;
  static constexpr int kBytes = kWeights + kTileRows * kRow;
  static_assert(kTileStages * kBytes <= kMaxSharedBytes);

  __device__ static int x_place(int row, int piece) {
    return kWeights + row * kRow + (piece ^ row % 2 * 4) * 16;
  }
};

// The place of a block's tile. Blocks are numbered so that weights are read once for kTileGroup
// tiles of rows, and rows stay in the cache from one tile of columns to the next.
struct TilePlace {
  int first_stripe;
  int64_t first_row;

  __device__ explicit TilePlace(const Product& product) {
    const int rows = static_cast<int>(tiles_of_rows(product.out.rows));
    const int cols = static_cast<int>(tiles_of_cols(product.cols()));
    const int block = static_cast<int>(blockIdx.x), group = block / (kTileGroup * cols);
    const int in_group = block - group * kTileGroup * cols;
    const int group_rows = min(kTileGroup, rows - group * kTileGroup);
    first_stripe = in_group / group_rows * kTileStripes;
    first_row = int64_t{group * kTileGroup + in_group % group_rows} * kTileRows;
  }
};

// Begins to fill a stage; all threads call it together.
template <DType kWeight>
__device__ void fill_stage(const Product& product, const TilePlace& place, int unit,
                           std::byte* stage) {
  using Bytes = device::FragmentBytes<kWeight>;
  using Stage = TileStage<kWeight>;
  constexpr int kPieces = Stage::kUnit / 16, kRowPieces = Stage::kRow / 16;
  // kRows is even, so the rows of one thread are all even or all odd, and their halves have the
  // same order.
  constexpr int kRows = kTileThreads / kRowPieces;
  const int thread = static_cast<int>(threadIdx.x);
  const int left = product.stripes() - place.first_stripe;
  const std::byte* weights = product.weight + Bytes::kHead + unit * Bytes::kUnit +
                             place.first_stripe * Bytes::stripe(product.x.cols);
#pragma unroll 1
  for (int i = thread; i < kTileStripes * kPieces; i += kTileThreads) {
    const int stripe = i / kPieces;
    const int64_t offset = min(stripe, left - 1) * Bytes::stripe(product.x.cols);
    copy_async(stage + i * 16, weights + offset + i % kPieces * 16, stripe < left ? 16 : 0);
  }
  const int piece = thread % kRowPieces;
  const int64_t k = unit * device::kUnitDepth + piece * 8;
  int64_t row = place.first_row + thread / kRowPieces;
  std::byte* to = stage + Stage::x_place(thread / kRowPieces, piece);
#pragma unroll 1
  for (int i = 0; i < kTileRows / kRows; ++i) {
    const bool there = row < product.x.rows && k < product.x.cols;
    copy_async(to, product.x.row<uint16_t>(there ? row : 0) + (there ? k : 0), there ? 16 : 0);
    row += kRows;
    to += kRows * Stage::kRow;
  }
}

}  // namespace lockstep::LOCKSTEP_TARGET
