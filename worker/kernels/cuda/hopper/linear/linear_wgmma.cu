// SPDX-License-Identifier: Apache-2.0
// The linear of linear_mma.cu for many rows, by wgmma, with the same bits and the same packed
// weights.
#include "worker/kernels/cuda/hopper/linear/linear_wgmma.h"
#include "worker/kernels/cuda/hopper/linear/ordered_rows.h"
#include "worker/kernels/cuda/hopper/linear/wgmma_kernel.h"
#include "worker/kernels/cuda/linear/linear_mma.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

struct SameRow {
  __device__ int64_t operator()(int64_t row) const { return row; }
};

struct NextRows {
  float* first;
  const TensorView& out;
  __device__ float& at(int row) const { return first[row * out.stride]; }
};

// A Work: one matrix, and tiles of rows that follow one another.
template <int kTileRows>
struct LinearWork {
  static constexpr bool kPairs = true;
  Product product;
  WgmmaTiles all;

  __device__ WgmmaTiles tiles() const { return all; }
  __device__ TileRows rows(int tile_row) const {
    const int64_t left = product.x.rows - int64_t{tile_row} * kTileRows;
    return {.matrix = 0,
            .begin = tile_row * kTileRows,
            .count = static_cast<int>(min(left, kTileRows))};
  }
  __device__ NextRows column(int row, int64_t col) const {
    return {.first = product.out.row<float>(row) + col, .out = product.out};
  }
};

template <DType kWeight, typename T, int kTileRows>
const char* multiply(const Product& product, void* queue) {
  const WgmmaTiles all{.of_cols = wgmma_tiles_of_cols(product),
                       .of_rows = static_cast<int>((product.x.rows + kTileRows - 1) / kTileRows)};
  return start_wgmma<kWeight, T, kTileRows>(LinearWork<kTileRows>{product, all}, 1,
                                            int64_t{all.of_cols} * all.of_rows, queue);
}

}  // namespace

// The cost is the number of rounds of tiles over the multiprocessors, times a tile's cost. By
// measurements on an H100 and an H200 a tile's cost grows with its rows, and small tiles cost more
// per row, since shared memory limits them. With few tiles most multiprocessors would have no work;
// the number from which wgmma is worth it was not measured.
int wgmma_tile_rows(DType weight, int64_t rows, int64_t cols, int of_device) {
  constexpr int64_t kFewRows = 64, kMinTiles = 32;
  constexpr int64_t kSmall = 192, kSmallCost = 115, kTileCost = 800;
  const int64_t of_cols = wgmma_blocks(cols);
  if (rows <= kFewRows || of_cols * ((rows + kFewRows - 1) / kFewRows) < kMinTiles) return 0;
  int best = 0;
  int64_t best_cost = 0;
  for (const int tile_rows : kWgmmaTileRows) {
    if (tile_rows > max_tile_rows(weight)) break;
    const int64_t tiles = (rows + tile_rows - 1) / tile_rows * of_cols;
    const int64_t rounds = (tiles + of_device - 1) / of_device;
    const int64_t cost = rounds * (tile_rows * (tile_rows < kSmall ? kSmallCost : 100) + kTileCost);
    if (best != 0 && cost >= best_cost) continue;
    best = tile_rows;
    best_cost = cost;
  }
  return best;
}

template <DType kWeight>
const char* linear_wgmma_by(int tile_rows, const KernelArgs& args) {
  using T = std::conditional_t<kWeight == DType::kF16, F16, BF16>;
  const TensorView& x = args.in[0];
  if (x.rows <= 0 || args.out[0].cols <= 0 || x.cols <= 0) return linear_mma<kWeight>(args);
  TensorView ordered;
  const char* failure = order_x<T>(x, args.scratch, x.rows, SameRow(), args.queue, &ordered);
  if (failure != nullptr) return failure;
  const MapAttrs gate = map_of(args.attrs);
  const Product product{.x = ordered,
                        .weight = static_cast<const std::byte*>(args.in[1].data),
                        .bias = args.in[2],
                        .out = args.out[0],
                        .function = gate.function,
                        .factor = gate.factor};
  return with_tile_rows<kWeight>(tile_rows, [&](auto rows) {
    return multiply<kWeight, T, decltype(rows)::value>(product, args.queue);
  });
}

template <DType kWeight>
const char* linear_wgmma(const KernelArgs& args) {
  const int64_t cols = product_cols(map_of(args.attrs).function, args.out[0].cols);
  const int tile_rows =
      wgmma_tile_rows(kWeight, args.out[0].rows, cols, processors(kMultiprocessorsOfShim));
  return tile_rows == 0 ? linear_mma<kWeight>(args) : linear_wgmma_by<kWeight>(tile_rows, args);
}

#define LOCKSTEP_LINEAR_WGMMA(KIND)                                                         \
  template const char* linear_wgmma_by<DType::KIND>(int tile_rows, const KernelArgs& args); \
  template const char* linear_wgmma<DType::KIND>(const KernelArgs& args);
LOCKSTEP_LINEAR_WGMMA(kBF16)
LOCKSTEP_LINEAR_WGMMA(kF16)
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_LINEAR_WGMMA)
#undef LOCKSTEP_LINEAR_WGMMA

}  // namespace lockstep::LOCKSTEP_TARGET
