// SPDX-License-Identifier: Apache-2.0
// out[r][n] = sum over k of x[r][k] * weight[n][k] (+ bias[n]), where weight is plain rows: one
// accumulator per output, over k in order by fma, independent of the number of rows. Codes, and
// rows that they multiply, are rounded to bfloat16. Used for float32 if cuBLASLt has no algorithm,
// and to test the others. A block computes a tile of 16 rows by 16 columns, and reads 32 of k at a
// time into shared memory. gated_linear is the same, followed by gated of every two columns.
#include "worker/kernels/cuda/functions.h"
#include "worker/kernels/cuda/matrix.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

constexpr int kTile = 16;
constexpr int kDepth = 32;

// Rows [first, first + kTile) by columns [depth, depth + kDepth) of a matrix, where they exist.
template <bool kRounds, typename Matrix>
__device__ void read_tile(const Matrix& from, int64_t rows, int64_t first, int64_t depth,
                          float (&to)[kTile][kDepth + 1]) {
  for (unsigned i = threadIdx.x; i < kTile * kDepth; i += blockDim.x) {
    const int64_t row = first + i / kDepth, col = depth + i % kDepth;
    if (row >= rows || col >= from.view.cols) continue;
    to[i / kDepth][i % kDepth] = operand<kRounds>(from, row, col);
  }
}

template <typename Rows, typename Matrix, bool kRounds>
__global__ void linear_kernel(Rows rows, Matrix weight, TensorView bias, TensorView out,
                              Function function, float factor) {
  const TensorView& x = rows.view;
  const int64_t cols = product_cols(function, out.cols);
  __shared__ float inputs[kTile][kDepth + 1], weights[kTile][kDepth + 1];
  const int64_t first_row = int64_t{blockIdx.y} * kTile, first_col = int64_t{blockIdx.x} * kTile;
  const unsigned r = threadIdx.x / kTile, n = threadIdx.x % kTile;
  const bool mine = first_row + r < x.rows && first_col + n < cols;
  float sum = 0;
  for (int64_t depth = 0; depth < x.cols; depth += kDepth) {
    read_tile<kRounds>(rows, x.rows, first_row, depth, inputs);
    read_tile<kRounds>(weight, cols, first_col, depth, weights);
    __syncthreads();
    const int64_t steps = min(kDepth, x.cols - depth);
    for (int64_t k = 0; mine && k < steps; ++k) sum = fmaf(inputs[r][k], weights[n][k], sum);
    __syncthreads();
  }
  if (mine && bias.data != nullptr) sum = sum + bias.row<float>(0)[first_col + n];
  if (function == Function::kNone) {
    if (mine) out.row<float>(first_row + r)[first_col + n] = sum;
    return;
  }
  inputs[r][n] = sum;
  __syncthreads();
  if (!mine || n % 2 != 0) return;
  const float found = function_of(function, factor, sum);
  set_element(out, first_row + r, (first_col + n) / 2, found * inputs[r][n + 1]);
}

template <typename Rows, typename Matrix, bool kRounds = false>
const char* linear(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  const MapAttrs gate = map_of(args.attrs);
  const int64_t cols = product_cols(gate.function, out.cols);
  return launch(linear_kernel<Rows, Matrix, kRounds>,
                {(cols + kTile - 1) / kTile, (x.rows + kTile - 1) / kTile}, kTile * kTile,
                args.queue, Rows{x}, Matrix{args.in[1]}, args.in[2], out, gate.function,
                gate.factor);
}

}  // namespace

const char* linear_f32(const KernelArgs& args) {
  return linear<Numbers<float>, Numbers<float>>(args);
}
const char* linear_bf16(const KernelArgs& args) {
  return linear<Numbers<BF16>, Numbers<BF16>>(args);
}
const char* linear_f16(const KernelArgs& args) { return linear<Numbers<F16>, Numbers<F16>>(args); }
template <DType kWeight>
const char* linear_codes(const KernelArgs& args) {
  if (args.in[0].dtype == DType::kBF16) return linear<Numbers<BF16>, Codes<kWeight>, true>(args);
  return linear<Numbers<float>, Codes<kWeight>, true>(args);
}

#define LOCKSTEP_LINEAR_CODES(KIND) \
  template const char* linear_codes<DType::KIND>(const KernelArgs& args);
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_LINEAR_CODES)
#undef LOCKSTEP_LINEAR_CODES

}  // namespace lockstep::LOCKSTEP_TARGET
