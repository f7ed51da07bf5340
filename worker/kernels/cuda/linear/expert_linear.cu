// SPDX-License-Identifier: Apache-2.0
// expert_linear: each route's row times its expert's matrix. One block of threads sorts the routes
// by expert, into tiles of rows of one expert. On tensor cores the tiles' rows of x are then copied
// in that order, and rounded if weights are codes. A block multiplies stripes of the expert's
// weights by a tile as linear_mma.cu does, so a row has the bits that linear gives that row alone.
// float32 is computed as in linear.cu, with one accumulator per output over k in order. A route
// whose id is out of range has no row.
#include "worker/kernels/cuda/linear/expert_linear.h"
#include "worker/kernels/cuda/linear/linear_stream.h"
#include "worker/kernels/cuda/linear/matrix.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

using device::ExpertTile;

constexpr int kTile = 16;
constexpr int kDepth = 32;
constexpr int kSortThreads = 256;

// One thread per expert counts its routes, one thread computes where each expert begins, then each
// thread lists its expert's routes in `order`, and its tiles. The remaining tiles have no rows, and
// the remaining entries of the order are -1.
__global__ void sort_kernel(TensorView ids, int64_t experts, SortedRoutes sorted,
                            int32_t tile_rows) {
  __shared__ int32_t begins[kMaxExperts + 1], tile_begins[kMaxExperts + 1];
  for (int64_t e = threadIdx.x; e < experts; e += blockDim.x) {
    int32_t count = 0;
    for (int64_t r = 0; r < ids.rows; ++r) count += *ids.row<int32_t>(r) == e ? 1 : 0;
    begins[e + 1] = count;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    begins[0] = tile_begins[0] = 0;
    for (int64_t e = 0; e < experts; ++e) {
      tile_begins[e + 1] = tile_begins[e] + (begins[e + 1] + tile_rows - 1) / tile_rows;
      begins[e + 1] += begins[e];
    }
    *sorted.tile_count = tile_begins[experts];
  }
  __syncthreads();
  for (int64_t e = threadIdx.x; e < experts; e += blockDim.x) {
    int32_t at = begins[e];
    for (int64_t r = 0; r < ids.rows; ++r) {
      if (*ids.row<int32_t>(r) == e) sorted.order[at++] = static_cast<int32_t>(r);
    }
    int32_t begin = begins[e];
    for (int32_t tile = tile_begins[e]; tile < tile_begins[e + 1]; ++tile, begin += tile_rows) {
      const int32_t rows = begins[e + 1] - begin < tile_rows ? begins[e + 1] - begin : tile_rows;
      sorted.tiles[tile] = {static_cast<int32_t>(e), begin, rows};
    }
  }
  for (int64_t i = tile_begins[experts] + threadIdx.x; i < sorted.max_tiles; i += blockDim.x) {
    sorted.tiles[i] = {};
  }
  for (int64_t i = begins[experts] + threadIdx.x; i < ids.rows; i += blockDim.x) {
    sorted.order[i] = -1;
  }
}

__global__ void expert_kernel(Numbers<float> rows, Numbers<float> weight, TensorView bias,
                              TensorView out, const int32_t* order, const ExpertTile* tiles,
                              int64_t each) {
  __shared__ float inputs[kTile][kDepth + 1], weights[kTile][kDepth + 1];
  const ExpertTile tile = tiles[blockIdx.x];
  if (tile.rows == 0) return;
  const int64_t first_col = int64_t{blockIdx.y} * kTile, depth = rows.view.cols;
  const int64_t top = tile.expert * out.cols + first_col;
  const unsigned r = threadIdx.x / kTile, n = threadIdx.x % kTile;
  const bool mine = static_cast<int32_t>(r) < tile.rows && first_col + n < out.cols;
  float sum = 0;
  for (int64_t begin = 0; begin < depth; begin += kDepth) {
    for (unsigned i = threadIdx.x; i < kTile * kDepth; i += blockDim.x) {
      const int64_t row = i / kDepth, k = begin + i % kDepth;
      if (k >= depth) continue;
      if (row < tile.rows) {
        inputs[row][i % kDepth] = rows.at(order[tile.begin + row] / each, k);
      }
      if (first_col + row < out.cols) {
        weights[row][i % kDepth] = weight.at(top + row, k);
      }
    }
    __syncthreads();
    const int64_t steps = min(kDepth, depth - begin);
    for (int64_t k = 0; mine && k < steps; ++k) sum = fmaf(inputs[r][k], weights[n][k], sum);
    __syncthreads();
  }
  if (!mine) return;
  if (bias.data != nullptr) sum = sum + bias.row<float>(0)[top + n];
  out.row<float>(order[tile.begin + r])[first_col + n] = sum;
}

// Copies the row of route order[i] to row i of `to`; `each` neighbouring routes have the same row
// of x.
template <typename From, typename To>
__global__ void copy_sorted_kernel(TensorView from, TensorView to, const int32_t* order,
                                   int64_t each) {
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x;
  const int32_t route = order[row];
  if (route < 0) return;
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < to.cols; i += step) {
    narrow(i < from.cols ? widen(from.row<From>(route / each)[i]) : 0.0f, to.row<To>(row)[i]);
  }
}

// `experts` has all experts' weights and biases, and the sorted rows as x.
template <DType kWeight, typename T, int kStripes, int kTiles>
__global__ void __launch_bounds__(kMaxStreamWarps* kWarp)
    expert_stream_kernel(Product experts, const int32_t* order, const ExpertTile* tiles) {
  const ExpertTile tile = tiles[blockIdx.x];
  if (tile.rows == 0) return;
  Product product = experts;
  product.function = Function::kNone;  // A constant, so no code for pairs takes registers.
  product.x.data = experts.x.row<uint16_t>(tile.begin);
  product.x.rows = tile.rows;
  product.to_row = order + tile.begin;
  product.weight +=
      tile.expert * (product.stripes() * device::FragmentBytes<kWeight>::stripe(product.x.cols));
  if (product.bias.data != nullptr) {
    product.bias.data = product.bias.row<float>(0) + tile.expert * product.out.cols;
  }
  stream_block<kWeight, T, kStripes, kTiles>(
      product, {.first_stripe = static_cast<int>(blockIdx.y) * kStripes, .first_row = 0});
}

template <DType kWeight, typename T, int kStripes, int kTiles>
const char* multiply(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  SortedRoutes sorted;
  const char* failure = sort_routes(args, kTiles * 8, &sorted);
  if (failure != nullptr) return failure;
  const int64_t cols = device::copied_stride(x.cols);
  const TensorView rows{sorted.rows, out.rows, cols, cols, DType::kNone};
  const auto copy =
      x.dtype == DType::kF32 ? copy_sorted_kernel<float, T> : copy_sorted_kernel<T, T>;
  failure = launch(copy, row_grid(out.rows, cols), kRowThreads, args.queue, x, rows, sorted.order,
                   out.rows / x.rows);
  if (failure != nullptr) return failure;
  const StreamBlock block = stream_block_of<kStripes, kTiles>(cols);
  const int64_t of_cols = (device::stripes_of(out.cols) + kStripes - 1) / kStripes;
  const Product product{.x = rows,
                        .weight = static_cast<const std::byte*>(args.in[2].data),
                        .bias = args.in[3],
                        .out = out};
  return launch(expert_stream_kernel<kWeight, T, kStripes, kTiles>,
                {.x = sorted.max_tiles, .y = of_cols, .shared_bytes = block.shared_bytes},
                block.warps * kWarp, args.queue, product, sorted.order, sorted.tiles);
}

}  // namespace

const char* sort_routes(const KernelArgs& args, int64_t tile_rows, SortedRoutes* sorted) {
  const TensorView &ids = args.in[1], &out = args.out[0];
  const int64_t experts = args.attrs.expert().experts;
  auto* const order = reinterpret_cast<int32_t*>(args.scratch);
  std::byte* tiles = args.scratch + device::expert_order_bytes(out.rows);
  *sorted = {.max_tiles = device::expert_tile_count(out.rows, experts, tile_rows),
             .order = order,
             .tile_count = order + out.rows,
             .tiles = reinterpret_cast<ExpertTile*>(tiles),
             .rows = tiles + device::expert_list_bytes(out.rows, experts)};
  return launch(sort_kernel, {1, 1}, kSortThreads, args.queue, ids, experts, *sorted,
                static_cast<int32_t>(tile_rows));
}

const char* expert_linear_f32(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  if (x.rows <= 0 || out.cols <= 0) return nullptr;
  SortedRoutes sorted;
  const char* failure = sort_routes(args, kTile, &sorted);
  if (failure != nullptr) return failure;
  return launch(expert_kernel, {sorted.max_tiles, (out.cols + kTile - 1) / kTile}, kTile * kTile,
                args.queue, Numbers<float>{x}, Numbers<float>{args.in[2]}, args.in[3], out,
                sorted.order, sorted.tiles, out.rows / x.rows);
}

// A tile has as many rows as each expert would have if routes were spread evenly. The choice
// changes no bit.
template <DType kWeight>
const char* expert_linear_mma(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  if (x.rows <= 0 || out.cols <= 0) return nullptr;
  const int64_t each = out.rows / max(1, args.attrs.expert().experts);
  if (each <= 8) return multiply<kWeight, BF16, 1, 1>(args);
  if (each <= 16) return multiply<kWeight, BF16, 1, 2>(args);
  if (each <= 32) return multiply<kWeight, BF16, 1, 4>(args);
  return multiply<kWeight, BF16, 2, 8>(args);
}

#define LOCKSTEP_EXPERT_LINEAR_MMA(KIND) \
  template const char* expert_linear_mma<DType::KIND>(const KernelArgs& args);
LOCKSTEP_EXPERT_LINEAR_MMA(kBF16)
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_EXPERT_LINEAR_MMA)
#undef LOCKSTEP_EXPERT_LINEAR_MMA

}  // namespace lockstep::LOCKSTEP_TARGET
