// SPDX-License-Identifier: Apache-2.0
// The linear of linear_mma.cu for many rows, by wgmma, with the same bits and the same packed
// weights.
//
// A step of linear_mma.cu takes four of every eight neighbouring columns (fragments.h). wgmma takes
// 16 neighbours from rows of shared memory. So x is first copied with its columns in the order of
// the steps: the four neighbouring words (of two numbers) that linear_mma.cu gives to one lane move
// to places four words apart.
#include "worker/kernels/cuda/hopper/linear/linear_wgmma.h"
#include "worker/kernels/cuda/hopper/linear/wgmma_tile.h"
#include "worker/kernels/cuda/linear/linear_mma.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

constexpr int kMaxCodesRows = 192;   // Codes leave no registers for larger tiles.
constexpr int64_t kStepsDepth = 32;  // The columns of two steps.

template <typename T>
struct alignas(16) Piece {
  T at[8];
};

// Word 4m + t of every 16 words is word 4t + m of x. A thread writes the four words of one m.
// Columns that x lacks are zeros.
template <typename From, typename To>
__global__ void order_kernel(TensorView from, TensorView to) {
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x;
  const From* const x = from.row<From>(row);
  auto* const pieces = reinterpret_cast<Piece<To>*>(to.row<To>(row));
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < to.cols / 8; i += step) {
    const int64_t first = i / 4 * kStepsDepth + i % 4 * 2;
    Piece<To> numbers;
#pragma unroll
    for (int at = 0; at < 8; ++at) {
      const int64_t col = first + at / 2 * 8 + at % 2;
      narrow(col < from.cols ? widen(x[col]) : 0.0f, numbers.at[at]);
    }
    pieces[i] = numbers;
  }
}

template <DType kWeight, typename T, int kTileRows>
__device__ void multiply_tiles(const Product& product, const WgmmaWork& work,
                               const WgmmaShared<kWeight, kTileRows>& shared) {
  const int clusters = static_cast<int>(gridDim.x) / kCluster;
  WgmmaTile<kWeight, T, kTileRows> own(shared, static_cast<int>(threadIdx.x) - kWarpgroup);
  for (int tile = static_cast<int>(blockIdx.x) / kCluster; tile < work.tiles(); tile += clusters) {
    const WgmmaWork::Place place = work.place(tile);
    const int stripe = place.stripe + cluster_rank() * kBlockStripes + own.warp;
    const int64_t first_row = int64_t{place.tile_row} * kTileRows;
    own.load_head(product, stripe);
    own.add_units(product.units());
    if (product.in_pairs()) {
      own.store_pairs(product, stripe, first_row);
    } else {
      own.store(product, stripe, first_row);
    }
  }
}

template <DType kWeight, typename T, int kTileRows>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(kWgmmaThreads, 1)
    wgmma_kernel(const __grid_constant__ TensorMap weights, const __grid_constant__ TensorMap x,
                 const __grid_constant__ Product product, const __grid_constant__ WgmmaWork work) {
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
      bring_tiles<kWeight, kTileRows>(weights, x, work, product.units(), shared);
    }
  } else {
    more_registers<240>();
    multiply_tiles<kWeight, T, kTileRows>(product, work, shared);
  }
  // A block must not end while the other one still copies to it or arrives at its barriers.
  warp_meet();
  cluster_meet();
}

constexpr int kShimProcessors = 6;  // So few that blocks compute several tiles.

template <DType kWeight, typename T, int kTileRows>
const char* multiply(const Product& product, void* queue) {
  using Bytes = device::FragmentBytes<kWeight>;
  using Shared = WgmmaShared<kWeight, kTileRows>;
  const int64_t stripes = device::stripes_of(product.cols()), depth = product.x.cols;
  TensorMap weights, x;
  const char* failure = make_map({.data = product.weight + Bytes::kHead,
                                  .cols = device::units_of(depth) * Bytes::kUnit / 8,
                                  .rows = stripes,
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
  const WgmmaWork work{
      .of_cols = static_cast<int>((stripes + kClusterStripes - 1) / kClusterStripes),
      .of_rows = static_cast<int>((product.x.rows + kTileRows - 1) / kTileRows)};
  const int64_t clusters =
      min(int64_t{work.of_cols} * work.of_rows, processors(kShimProcessors) / kCluster);
  return launch_clusters(wgmma_kernel<kWeight, T, kTileRows>, clusters, kCluster, kWgmmaThreads,
                         Shared::kBytes, queue, weights, x, product, work);
}

}  // namespace

// The cost is the number of rounds of tiles over the multiprocessors, times a tile's cost. By
// measurements on an H100 and an H200 a tile's cost grows with its rows, and small tiles cost more
// per row, since shared memory limits them. With few tiles most multiprocessors would have no work;
// the number from which wgmma is worth it was not measured.
int wgmma_tile_rows(DType weight, int64_t rows, int64_t cols, int of_device) {
  constexpr int64_t kFewRows = 64, kMinTiles = 32;
  constexpr int64_t kSmall = 192, kSmallCost = 115, kTileCost = 800;
  const int64_t of_cols =
      (cols + kBlockStripes * device::kStripeRows - 1) / (kBlockStripes * device::kStripeRows);
  if (rows <= kFewRows || of_cols * ((rows + kFewRows - 1) / kFewRows) < kMinTiles) return 0;
  int best = 0;
  int64_t best_cost = 0;
  for (const int tile_rows : {64, 128, 176, 192, 208}) {
    if (tile_rows > kMaxCodesRows && quantization(weight)) break;
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
  const int64_t cols = device::units_of(x.cols) * device::kUnitDepth;
  const TensorView ordered{args.scratch, x.rows, cols, cols, DType::kNone};
  const auto order = x.dtype == DType::kF32 ? order_kernel<float, T> : order_kernel<T, T>;
  const char* failure =
      launch(order, row_grid(x.rows, cols / 8), kRowThreads, args.queue, x, ordered);
  if (failure != nullptr) return failure;
  const MapAttrs gate = map_of(args.attrs);
  const Product product{.x = ordered,
                        .weight = static_cast<const std::byte*>(args.in[1].data),
                        .bias = args.in[2],
                        .out = args.out[0],
                        .function = gate.function,
                        .factor = gate.factor};
  switch (tile_rows) {
    case 64:
      return multiply<kWeight, T, 64>(product, args.queue);
    case 128:
      return multiply<kWeight, T, 128>(product, args.queue);
    case 176:
      return multiply<kWeight, T, 176>(product, args.queue);
    case 192:
      return multiply<kWeight, T, 192>(product, args.queue);
    default:
      if constexpr (!quantization(kWeight)) {
        return multiply<kWeight, T, 208>(product, args.queue);
      }
      return "no such tile";
  }
}

template <DType kWeight>
const char* linear_wgmma(const KernelArgs& args) {
  const int64_t cols = product_cols(map_of(args.attrs).function, args.out[0].cols);
  const int tile_rows =
      wgmma_tile_rows(kWeight, args.out[0].rows, cols, processors(kShimProcessors));
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
