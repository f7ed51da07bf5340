// SPDX-License-Identifier: Apache-2.0
// out[r][n] = sum over k of x[r][k] * weight[n][k] (+ bias[n]), where weight is plain rows. Each
// output has one accumulator, over k in order by fma, so its bits do not depend on the number of
// rows. Weights that are codes, and the rows that they multiply, are rounded to bfloat16. This is
// the plain kernel of every type; the exact class has no other one for float32. Tests and proofs
// compare the other kernels with it. gated_linear is the same product, followed by the operator
// gated on every two columns.
#include "worker/kernels/cuda/functions.h"
#include "worker/kernels/cuda/linear/matrix.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

// A block computes a tile of rows by as many columns, kPer * kPer outputs per thread, and reads
// kDepth of k at a time into shared memory. These sizes change no bit.
constexpr int kSide = 16;
template <int kPer, int kDepth>
struct Tile {
  static constexpr int kSize = kSide * kPer;
  float inputs[kSize][kDepth + 1], weights[kSize][kDepth + 1];
};

// Reads rows [first, first + kSize) by columns [depth, depth + kDepth) of a matrix, if they exist.
template <bool kRounds, int kDepth, int kSize, typename Matrix>
__device__ void read_tile(const Matrix& from, int64_t rows, int64_t first, int64_t depth,
                          float (&to)[kSize][kDepth + 1]) {
  for (unsigned i = threadIdx.x; i < kSize * kDepth; i += blockDim.x) {
    const int64_t row = first + i / kDepth, col = depth + i % kDepth;
    if (row >= rows || col >= from.view.cols) continue;
    to[i / kDepth][i % kDepth] = operand<kRounds>(from, row, col);
  }
}

// Adds columns [0, steps) of the tile to the sums of rows r, r + kSide ... and columns n, n + kSide
// ... of the outputs.
template <int kPer, int kDepth>
__device__ void add_tile(const Tile<kPer, kDepth>& tile, unsigned r, unsigned n, int64_t steps,
                         float (&sums)[kPer][kPer]) {
  for (int64_t k = 0; k < steps; ++k) {
    float x[kPer], weight[kPer];
    for (int i = 0; i < kPer; ++i) x[i] = tile.inputs[r + kSide * i][k];
    for (int i = 0; i < kPer; ++i) weight[i] = tile.weights[n + kSide * i][k];
    for (int i = 0; i < kPer * kPer; ++i) {
      float& sum = sums[i / kPer][i % kPer];
      sum = fmaf(x[i / kPer], weight[i % kPer], sum);
    }
  }
}

template <int kPer, int kDepth, typename Rows, typename Matrix, bool kRounds>
__global__ void linear_kernel(Rows rows, Matrix weight, TensorView bias, TensorView out,
                              Function function, float factor) {
  using Block = Tile<kPer, kDepth>;
  const TensorView& x = rows.view;
  const int64_t cols = product_cols(function, out.cols);
  __shared__ Block tile;
  const int64_t first_row = int64_t{blockIdx.y} * Block::kSize,
                first_col = int64_t{blockIdx.x} * Block::kSize;
  const unsigned r = threadIdx.x / kSide, n = threadIdx.x % kSide;
  float sums[kPer][kPer] = {};
  for (int64_t depth = 0; depth < x.cols; depth += kDepth) {
    read_tile<kRounds, kDepth>(rows, x.rows, first_row, depth, tile.inputs);
    read_tile<kRounds, kDepth>(weight, cols, first_col, depth, tile.weights);
    __syncthreads();
    add_tile(tile, r, n, min(kDepth, x.cols - depth), sums);
    __syncthreads();
  }
  for (int i = 0; i < kPer * kPer; ++i) {
    const int64_t row = first_row + r + i / kPer * kSide, col = first_col + n + i % kPer * kSide;
    const bool mine = row < x.rows && col < cols;
    float sum = sums[i / kPer][i % kPer];
    if (mine && bias.data != nullptr) sum = sum + bias.row<float>(0)[col];
    if (function == Function::kNone) {
      if (mine) out.row<float>(row)[col] = sum;
      continue;
    }
    float& own = tile.inputs[r][n];
    own = sum;
    __syncthreads();
    if (mine && n % 2 == 0) {
      set_element(out, row, col / 2, function_of(function, factor, sum) * tile.inputs[r][n + 1]);
    }
    __syncthreads();
  }
}

template <int kPer, int kDepth, typename Rows, typename Matrix, bool kRounds = false>
const char* linear(const KernelArgs& args) {
  constexpr int64_t kSize = Tile<kPer, kDepth>::kSize;
  const TensorView &x = args.in[0], &out = args.out[0];
  const MapAttrs gate = map_of(args.attrs);
  const int64_t cols = product_cols(gate.function, out.cols);
  return launch(linear_kernel<kPer, kDepth, Rows, Matrix, kRounds>,
                {(cols + kSize - 1) / kSize, (x.rows + kSize - 1) / kSize}, kSide * kSide,
                args.queue, Rows{x}, Matrix{args.in[1]}, args.in[2], out, gate.function,
                gate.factor);
}

template <typename Rows, typename Matrix, bool kRounds = false>
const char* plain_linear(const KernelArgs& args) {
  return linear<1, 32, Rows, Matrix, kRounds>(args);
}

}  // namespace

// With few rows a block reads more of the weight at a time. With many rows a thread uses each
// number that it reads in four products.
const char* linear_f32(const KernelArgs& args) {
  using F32 = Numbers<float>;
  return args.in[0].rows <= kSide ? linear<1, 128, F32, F32>(args) : linear<4, 32, F32, F32>(args);
}
const char* linear_bf16(const KernelArgs& args) {
  return plain_linear<Numbers<BF16>, Numbers<BF16>>(args);
}
const char* linear_f16(const KernelArgs& args) {
  return plain_linear<Numbers<F16>, Numbers<F16>>(args);
}
template <DType kWeight>
const char* linear_codes(const KernelArgs& args) {
  if (args.in[0].dtype == DType::kBF16)
    return plain_linear<Numbers<BF16>, Codes<kWeight>, true>(args);
  return plain_linear<Numbers<float>, Codes<kWeight>, true>(args);
}

#define LOCKSTEP_LINEAR_CODES(KIND) \
  template const char* linear_codes<DType::KIND>(const KernelArgs& args);
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_LINEAR_CODES)
#undef LOCKSTEP_LINEAR_CODES

}  // namespace lockstep::LOCKSTEP_TARGET
