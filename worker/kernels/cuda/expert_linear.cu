// SPDX-License-Identifier: Apache-2.0
// Each route's row by its expert's matrix: one block sorts routes by expert into tiles of 16 rows,
// then a block computes 16 columns of a tile as linear.cu does, one accumulator per output over k
// in order: a row's bits do not depend on the others. Weights of codes and their rows are rounded
// to bfloat16, as linear.cu has them. An id that is no expert's gives no row.
#include "worker/kernels/cuda/matrix.h"
#include "worker/kernels/cuda/sizes.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

using device::ExpertTile;
using device::kExpertTileRows;

constexpr int kTile = static_cast<int>(kExpertTileRows);
constexpr int kDepth = 32;
constexpr int kSortThreads = 256;

// A thread counts an expert's routes, one places the experts one behind the other, then each lists
// its own: `order`, and the tiles. What is left of the tiles has no rows.
__global__ void sort_kernel(TensorView ids, int64_t experts, int32_t* order, ExpertTile* tiles,
                            int64_t max_tiles) {
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
      tile_begins[e + 1] = tile_begins[e] + (begins[e + 1] + kTile - 1) / kTile;
      begins[e + 1] += begins[e];
    }
  }
  __syncthreads();
  for (int64_t e = threadIdx.x; e < experts; e += blockDim.x) {
    int32_t at = begins[e];
    for (int64_t r = 0; r < ids.rows; ++r) {
      if (*ids.row<int32_t>(r) == e) order[at++] = static_cast<int32_t>(r);
    }
    int32_t begin = begins[e];
    for (int32_t tile = tile_begins[e]; tile < tile_begins[e + 1]; ++tile, begin += kTile) {
      const int32_t rows = begins[e + 1] - begin < kTile ? begins[e + 1] - begin : kTile;
      tiles[tile] = {static_cast<int32_t>(e), begin, rows};
    }
  }
  for (int64_t tile = tile_begins[experts] + threadIdx.x; tile < max_tiles; tile += blockDim.x) {
    tiles[tile] = {};
  }
}

template <typename Rows, typename Matrix, bool kRounds>
__global__ void expert_kernel(Rows rows, Matrix weight, TensorView bias, TensorView out,
                              const int32_t* order, const ExpertTile* tiles, int64_t each) {
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
        inputs[row][i % kDepth] = operand<kRounds>(rows, order[tile.begin + row] / each, k);
      }
      if (first_col + row < out.cols) {
        weights[row][i % kDepth] = operand<kRounds>(weight, top + row, k);
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

template <typename Rows, typename Matrix, bool kRounds>
const char* expert_linear(const KernelArgs& args) {
  const TensorView &x = args.in[0], &ids = args.in[1], &out = args.out[0];
  if (x.rows <= 0 || out.cols <= 0) return nullptr;
  const int64_t experts = args.attrs.experts;
  const int64_t tiles = device::expert_tile_count(out.rows, experts);
  auto* order = reinterpret_cast<int32_t*>(args.scratch);
  auto* list = reinterpret_cast<ExpertTile*>(args.scratch + device::expert_order_bytes(out.rows));
  const char* failure =
      launch(sort_kernel, {1, 1}, kSortThreads, args.queue, ids, experts, order, list, tiles);
  if (failure != nullptr) return failure;
  return launch(expert_kernel<Rows, Matrix, kRounds>, {tiles, (out.cols + kTile - 1) / kTile},
                kTile * kTile, args.queue, Rows{x}, Matrix{args.in[2]}, args.in[3], out, order,
                list, out.rows / x.rows);
}

}  // namespace

const char* expert_linear_f32(const KernelArgs& args) {
  return expert_linear<Numbers<float>, Numbers<float>, false>(args);
}
const char* expert_linear_bf16(const KernelArgs& args) {
  return expert_linear<Numbers<BF16>, Numbers<BF16>, false>(args);
}
template <DType kWeight>
const char* expert_linear_codes(const KernelArgs& args) {
  return expert_linear<Numbers<float>, Codes<kWeight>, true>(args);
}

#define LOCKSTEP_EXPERT_LINEAR_CODES(KIND) \
  template const char* expert_linear_codes<DType::KIND>(const KernelArgs& args);
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_EXPERT_LINEAR_CODES)
#undef LOCKSTEP_EXPERT_LINEAR_CODES

}  // namespace lockstep::LOCKSTEP_TARGET
