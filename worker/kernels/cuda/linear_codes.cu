// SPDX-License-Identifier: Apache-2.0
// linear over weights that are codes and scales: as many rows of the weight at a time as scratch
// holds are decoded to bfloat16, and multiplied as any bfloat16 weight is; rows of float32 are
// rounded to bfloat16 first. One way for any number of rows, so that a row's bits do not depend on
// it. sizes.h says what is where in scratch.
#include "worker/kernels/cuda/matrix.h"
#include "worker/kernels/cuda/sizes.h"

namespace lockstep::LOCKSTEP_TARGET {

#ifdef __CUDACC__
const char* linear_cublas_bf16(const KernelArgs& args);
constexpr KernelFn kProduct = linear_cublas_bf16;
#else
const char* linear_bf16(const KernelArgs& args);
constexpr KernelFn kProduct = linear_bf16;
#endif

namespace {

// Rows [first, first + to.rows) of a matrix as bfloat16.
template <typename Matrix>
__global__ void decode_kernel(Matrix from, int64_t first, TensorView to) {
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x;
  BF16* out = to.row<BF16>(row);
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < to.cols; i += step) {
    out[i] = from.rounded(first + row, i);
  }
}

template <typename Matrix>
const char* decode(const TensorView& from, int64_t first, const TensorView& to, void* queue) {
  return launch(decode_kernel<Matrix>, row_grid(to.rows, to.cols), kRowThreads, queue, Matrix{from},
                first, to);
}

}  // namespace

template <DType kWeight>
const char* linear_codes(const KernelArgs& args) {
  const TensorView &x = args.in[0], &bias = args.in[2], &out = args.out[0];
  KernelArgs product = args;
  TensorView& rows = product.in[0];
  TensorView& panel = product.in[1];
  rows = {args.scratch, x.rows, x.cols, x.cols, DType::kBF16};
  const char* failure = decode<Numbers<float>>(x, 0, rows, args.queue);
  const int64_t max_cols = device::decoded_cols(x.cols);
  std::byte* const decoded = args.scratch + device::decoded_x_bytes(x.rows, x.cols);
  for (int64_t first = 0; failure == nullptr && first < out.cols; first += max_cols) {
    const int64_t cols = out.cols - first < max_cols ? out.cols - first : max_cols;
    panel = {decoded, cols, x.cols, x.cols, DType::kBF16};
    failure = decode<Codes<kWeight>>(args.in[1], first, panel, args.queue);
    if (bias.data != nullptr) product.in[2].data = bias.row<float>(0) + first;
    product.in[2].cols = product.out[0].cols = cols;
    product.out[0].data = out.row<float>(0) + first;
    if (failure == nullptr) failure = kProduct(product);
  }
  return failure;
}

#define LOCKSTEP_LINEAR_CODES(KIND) \
  template const char* linear_codes<DType::KIND>(const KernelArgs& args);
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_LINEAR_CODES)
#undef LOCKSTEP_LINEAR_CODES

}  // namespace lockstep::LOCKSTEP_TARGET
