// SPDX-License-Identifier: Apache-2.0
// out[r][n] = sum over k of x[r][k] * weight[n][k] (+ bias[n]), weight being plain rows: one
// accumulator an output, over k in order by fma, whatever the number of rows. The plain form: for
// weights that are codes and scales, for machines without cuBLASLt's, and what that one is tested
// against. A block makes a tile of 16 rows by 16 columns, and reads 32 of k at a time into shared
// memory. Rows are taken as they are: unlike a CPU's, those beside codes are not rounded to int8.
#include "worker/kernels/cuda/matrix.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

constexpr int kTile = 16;
constexpr int kDepth = 32;

// Rows [first, first + kTile) by columns [depth, depth + kDepth) of a matrix, as far as it goes.
template <typename Matrix>
__device__ void read_tile(const Matrix& from, int64_t rows, int64_t first, int64_t depth,
                          float (&to)[kTile][kDepth + 1]) {
  for (unsigned i = threadIdx.x; i < kTile * kDepth; i += blockDim.x) {
    const int64_t row = first + i / kDepth, col = depth + i % kDepth;
    if (row < rows && col < from.view.cols) to[i / kDepth][i % kDepth] = from.at(row, col);
  }
}

template <typename Rows, typename Weight>
__global__ void linear_kernel(Rows rows, Weight weight, TensorView bias, TensorView out) {
  const TensorView& x = rows.view;
  __shared__ float inputs[kTile][kDepth + 1], weights[kTile][kDepth + 1];
  const int64_t first_row = int64_t{blockIdx.y} * kTile, first_col = int64_t{blockIdx.x} * kTile;
  const unsigned r = threadIdx.x / kTile, n = threadIdx.x % kTile;
  const bool mine = first_row + r < x.rows && first_col + n < out.cols;
  float sum = 0;
  for (int64_t depth = 0; depth < x.cols; depth += kDepth) {
    read_tile(rows, x.rows, first_row, depth, inputs);
    read_tile(weight, out.cols, first_col, depth, weights);
    __syncthreads();
    const int64_t steps = least(kDepth, x.cols - depth);
    for (int64_t k = 0; mine && k < steps; ++k) sum = fmaf(inputs[r][k], weights[n][k], sum);
    __syncthreads();
  }
  if (!mine) return;
  if (bias.data != nullptr) sum = sum + bias.row<float>(0)[first_col + n];
  out.row<float>(first_row + r)[first_col + n] = sum;
}

template <typename Rows, typename Weight>
void linear(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  launch(linear_kernel<Rows, Weight>,
         {(out.cols + kTile - 1) / kTile, (x.rows + kTile - 1) / kTile}, kTile * kTile, args.queue,
         Rows{x}, Weight{args.in[1]}, args.in[2], out);
}

}  // namespace

void linear_f32(const KernelArgs& args) { linear<Numbers<float>, Numbers<float>>(args); }
void linear_bf16(const KernelArgs& args) { linear<Numbers<BF16>, Numbers<BF16>>(args); }
void linear_f16(const KernelArgs& args) { linear<Numbers<F16>, Numbers<F16>>(args); }

template <DType kWeight>
void linear_codes_f32(const KernelArgs& args) {
  linear<Numbers<float>, Codes<kWeight>>(args);
}
template <DType kWeight>
void linear_codes_bf16(const KernelArgs& args) {
  linear<Numbers<BF16>, Codes<kWeight>>(args);
}

#define LOCKSTEP_LINEAR(kWeight)                                   \
  template void linear_codes_f32<kWeight>(const KernelArgs& args); \
  template void linear_codes_bf16<kWeight>(const KernelArgs& args);

LOCKSTEP_LINEAR(DType::kQ8)
LOCKSTEP_LINEAR(DType::kQ8G128)
LOCKSTEP_LINEAR(DType::kQ8C)
LOCKSTEP_LINEAR(DType::kQ4)
LOCKSTEP_LINEAR(DType::kQ4G64)
LOCKSTEP_LINEAR(DType::kQ4G128)
LOCKSTEP_LINEAR(DType::kQ4M)
LOCKSTEP_LINEAR(DType::kQ4MG64)
LOCKSTEP_LINEAR(DType::kQ4MG128)

#undef LOCKSTEP_LINEAR

}  // namespace lockstep::LOCKSTEP_TARGET
