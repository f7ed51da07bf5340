// SPDX-License-Identifier: Apache-2.0
// The expert_linear of expert_linear.cu for experts with many rows, by wgmma, with the same bits
// and the same packed weights. Routes are sorted by expert, and their rows of x are copied in that
// order. The tiles of one expert's rows, which only the device knows, are the work of
// linear_wgmma.cu's kernel.
#include "worker/kernels/cuda/hopper/linear/expert_linear_wgmma.h"
#include "worker/kernels/cuda/hopper/linear/ordered_rows.h"
#include "worker/kernels/cuda/hopper/linear/wgmma_kernel.h"
#include "worker/kernels/cuda/linear/expert_linear.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

// The row of x of a sorted row; `each` neighbouring routes have the same row of x.
struct RowOfRoute {
  const int32_t* order;
  int64_t each;
  __device__ int64_t operator()(int64_t row) const {
    const int32_t route = order[row];
    return route < 0 ? -1 : route / each;
  }
};

// Reads what no thread writes while the kernel runs.
__device__ inline int32_t load_constant(const int32_t* from) {
#ifdef __CUDACC__
  return __ldg(from);
#else
  return *from;
#endif
}

struct RowsOfRoutes {
  float* first;
  const TensorView& out;
  const int32_t* order;
  __device__ float& at(int row) const { return first[load_constant(order + row) * out.stride]; }
};

// A Work: the matrices of all experts, and the sorted rows of x. The product's columns are those of
// one expert.
struct ExpertWork {
  static constexpr bool kPairs = false;
  Product product;
  int of_cols;
  const int32_t* tile_count;
  const device::ExpertTile* list;

  __device__ WgmmaTiles tiles() const {
    return {.of_cols = of_cols, .of_rows = load_constant(tile_count)};
  }
  __device__ TileRows rows(int tile_row) const {
    const device::ExpertTile& tile = list[tile_row];
    return {.matrix = load_constant(&tile.expert),
            .begin = load_constant(&tile.begin),
            .count = load_constant(&tile.rows)};
  }
  __device__ RowsOfRoutes column(int row, int64_t col) const {
    return {.first = product.out.row<float>(0) + col,
            .out = product.out,
            .order = product.to_row + row};
  }
};

}  // namespace

// The cost is as in wgmma_tile_rows(): rounds of tiles, times a tile's cost. A tile's cost follows
// the speed of the prototype's linears with tiles of 64 to 208 rows. Routes are expected to spread
// evenly enough that an expert's last tile is half full. Nothing was measured with experts, neither
// the cost nor the number of rows per expert from which wgmma is worth it.
int expert_wgmma_tile_rows(DType weight, int64_t routes, int64_t experts, int64_t cols,
                           int of_device) {
  constexpr int64_t kFewRows = 64, kMinTiles = 32, kTileCost = 96;
  const int64_t blocks = wgmma_blocks(cols);
  if (routes <= kFewRows * experts || blocks * (routes / kFewRows) < kMinTiles) return 0;
  int best = 0;
  int64_t best_cost = 0;
  for (const int tile_rows : kWgmmaTileRows) {
    if (tile_rows > max_tile_rows(weight)) break;
    const int64_t tiles = max(experts, routes / tile_rows + experts / 2) * blocks;
    const int64_t rounds = (tiles + of_device - 1) / of_device;
    const int64_t cost = rounds * (tile_rows + kTileCost);
    if (best != 0 && cost >= best_cost) continue;
    best = tile_rows;
    best_cost = cost;
  }
  return best;
}

template <DType kWeight>
const char* expert_linear_wgmma_by(int tile_rows, const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  if (x.rows <= 0 || out.cols <= 0 || x.cols <= 0) return expert_linear_mma<kWeight>(args);
  SortedRoutes sorted;
  const char* failure = sort_routes(args, tile_rows, &sorted);
  if (failure != nullptr) return failure;
  TensorView ordered;
  failure = order_x<BF16>(x, sorted.rows, out.rows, RowOfRoute{sorted.order, out.rows / x.rows},
                          args.queue, &ordered);
  if (failure != nullptr) return failure;
  const Product product{.x = ordered,
                        .weight = static_cast<const std::byte*>(args.in[2].data),
                        .bias = args.in[3],
                        .out = out,
                        .to_row = sorted.order};
  const ExpertWork work{.product = product,
                        .of_cols = wgmma_tiles_of_cols(product),
                        .tile_count = sorted.tile_count,
                        .list = sorted.tiles};
  return with_tile_rows<kWeight>(tile_rows, [&](auto rows) {
    return start_wgmma<kWeight, BF16, decltype(rows)::value>(
        work, args.attrs.expert().experts, work.of_cols * sorted.max_tiles, args.queue);
  });
}

template <DType kWeight>
const char* expert_linear_wgmma(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  const int tile_rows = expert_wgmma_tile_rows(kWeight, out.rows, args.attrs.expert().experts,
                                               out.cols, processors(kMultiprocessorsOfShim));
  return tile_rows == 0 ? expert_linear_mma<kWeight>(args)
                        : expert_linear_wgmma_by<kWeight>(tile_rows, args);
}

#define LOCKSTEP_EXPERT_LINEAR_WGMMA(KIND)                                                         \
  template const char* expert_linear_wgmma_by<DType::KIND>(int tile_rows, const KernelArgs& args); \
  template const char* expert_linear_wgmma<DType::KIND>(const KernelArgs& args);
LOCKSTEP_EXPERT_LINEAR_WGMMA(kBF16)
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_EXPERT_LINEAR_WGMMA)
#undef LOCKSTEP_EXPERT_LINEAR_WGMMA

}  // namespace lockstep::LOCKSTEP_TARGET
