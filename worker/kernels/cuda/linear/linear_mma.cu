// SPDX-License-Identifier: Apache-2.0
// out[r][n] = sum over k of x[r][k] * weight[n][k] (+ bias[n]) on tensor cores, for weights of 16
// bits or codes. Weights are A and rows of x are B, so that a product of few rows wastes little.
// Every kernel adds an output's products in the order of fragments.h: the number of rows, of
// columns and of ranks changes no bit. The weights of gated_linear are in pairs: for each pair it
// stores function(first sum) * second sum (linear_product.h). Rows of float32 that are multiplied
// by codes are first rounded to bfloat16, into scratch.
#include "worker/kernels/cuda/linear/linear_mma.h"
#include "worker/kernels/cuda/linear/linear_stream.h"
#include "worker/kernels/cuda/linear/linear_tile.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

// With fewer tiles some of a GPU's multiprocessors would have no work.
constexpr int64_t kMinTiles = 64;

template <typename From, typename To>
__global__ void copy_kernel(TensorView from, TensorView to) {
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < to.cols; i += step) {
    narrow(i < from.cols ? widen(from.row<From>(row)[i]) : 0.0f, to.row<To>(row)[i]);
  }
}

template <typename T>
const char* copy_x(const TensorView& from, const TensorView& to, void* queue) {
  const auto kernel = from.dtype == DType::kF32 ? copy_kernel<float, T> : copy_kernel<T, T>;
  return launch(kernel, row_grid(to.rows, to.cols), kRowThreads, queue, from, to);
}

bool is_whole(const TensorView& x) {
  return x.dtype != DType::kF32 && x.cols % 8 == 0 && x.stride % 8 == 0 &&
         reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

// Blocks with the same stripes are neighbours, which run at the same time. So the weights are read
// from memory once for all rows.
template <DType kWeight, typename T, int kStripes, int kTiles>
__global__ void __launch_bounds__(kMaxStreamWarps* kWarp)
    stream_kernel(Product product, unsigned of_rows) {
  stream_block<kWeight, T, kStripes, kTiles>(
      product, {.first_stripe = static_cast<int>(blockIdx.x / of_rows) * kStripes,
                .first_row = int64_t{blockIdx.x % of_rows} * kTiles * 8});
}

template <DType kWeight, typename T, int kStripes, int kTiles>
const char* stream(const Product& product, void* queue) {
  const StreamBlock block = stream_block_of<kStripes, kTiles>(product.x.cols);
  const int64_t of_cols = (device::stripes_of(product.cols()) + kStripes - 1) / kStripes;
  const int64_t of_rows = (product.out.rows + kTiles * 8 - 1) / (kTiles * 8);
  const Grid grid{.x = of_cols * of_rows, .shared_bytes = block.shared_bytes};
  return launch(stream_kernel<kWeight, T, kStripes, kTiles>, grid, block.warps * kWarp, queue,
                product, static_cast<unsigned>(of_rows));
}

template <DType kWeight, typename T>
const char* tile(const Product& product, void* queue) {
  const Grid grid{.x = tiles_of_cols(product.cols()) * tiles_of_rows(product.out.rows),
                  .shared_bytes = kTileStages * TileStage<kWeight>::kBytes};
  return launch(tile_kernel<kWeight, T>, grid, kTileThreads, queue, product);
}

}  // namespace

MmaBlocks mma_blocks(int64_t rows, int64_t cols) {
  if (rows <= 8) return MmaBlocks::kStream8;
  if (rows <= 16) return MmaBlocks::kStream16;
  if (rows <= 32) return MmaBlocks::kStream32;
  const bool full = tiles_of_cols(cols) * tiles_of_rows(rows) >= kMinTiles;
  if (rows > 64 && full) return MmaBlocks::kTile128;
  return MmaBlocks::kStream64;
}

template <DType kWeight>
const char* linear_mma_by(MmaBlocks blocks, const KernelArgs& args) {
  using T = std::conditional_t<kWeight == DType::kF16, F16, BF16>;
  if (args.in[0].rows <= 0 || args.out[0].cols <= 0) return nullptr;
  const MapAttrs gate = map_of(args.attrs);
  Product product{.x = args.in[0],
                  .weight = static_cast<const std::byte*>(args.in[1].data),
                  .bias = args.in[2],
                  .out = args.out[0],
                  .function = gate.function,
                  .factor = gate.factor};
  if (const TensorView& x = args.in[0]; !is_whole(x)) {
    const int64_t cols = device::copied_stride(x.cols);
    product.x = {args.scratch, x.rows, cols, cols, DType::kNone};
    const char* failure = copy_x<T>(x, product.x, args.queue);
    if (failure != nullptr) return failure;
  }
  switch (blocks) {
    case MmaBlocks::kStream8:
      return stream<kWeight, T, 1, 1>(product, args.queue);
    case MmaBlocks::kStream16:
      return stream<kWeight, T, 1, 2>(product, args.queue);
    case MmaBlocks::kStream32:
      return stream<kWeight, T, 1, 4>(product, args.queue);
    case MmaBlocks::kStream64:
      return stream<kWeight, T, 2, 8>(product, args.queue);
    case MmaBlocks::kTile128:
      break;
  }
  return tile<kWeight, T>(product, args.queue);
}

template <DType kWeight>
const char* linear_mma(const KernelArgs& args) {
  const int64_t cols = product_cols(map_of(args.attrs).function, args.out[0].cols);
  return linear_mma_by<kWeight>(mma_blocks(args.out[0].rows, cols), args);
}

#define LOCKSTEP_LINEAR_MMA(KIND)                                                            \
  template const char* linear_mma_by<DType::KIND>(MmaBlocks blocks, const KernelArgs& args); \
  template const char* linear_mma<DType::KIND>(const KernelArgs& args);
LOCKSTEP_LINEAR_MMA(kBF16)
LOCKSTEP_LINEAR_MMA(kF16)
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_LINEAR_MMA)
#undef LOCKSTEP_LINEAR_MMA

}  // namespace lockstep::LOCKSTEP_TARGET
