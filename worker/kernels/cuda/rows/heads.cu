// SPDX-License-Identifier: Apache-2.0
// head_linear: each head's columns of a row times the head's matrix, with one thread per output
// column and the CPU's bits. If the matrix is [in, out], one sum over the columns of x; if it is
// [out, in], sixteen sums, which are then added in pairs (8 apart, then 4, 2 and 1). head_dot: each
// head's sum of x * y * weight, in the same way from sixteen sums, times v. join_heads,
// expand_heads: copies.
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

constexpr int kLanes = 16;

// The sum of x(k) * factors[k].
template <typename X>
__device__ float by_lanes(const X& x, const float* factors, int64_t count) {
  float sums[kLanes] = {};
  for (int64_t k = 0; k < count; ++k) sums[k % kLanes] = fmaf(x(k), factors[k], sums[k % kLanes]);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) sums[i] = sums[i] + sums[i + half];
  }
  return sums[0];
}

__global__ void head_linear_kernel(TensorView x, TensorView weight, TensorView out,
                                   HeadsAttrs attrs) {
  const int64_t row = blockIdx.x, stride = int64_t{gridDim.y} * blockDim.x;
  const int64_t x_dim = x.cols / attrs.heads, out_dim = out.cols / attrs.heads;
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < out.cols; i += stride) {
    const int64_t head = i / out_dim, column = i % out_dim;
    const float* from = x.row<float>(row) + head * x_dim;
    const float* matrix = weight.row<float>(0) + head * attrs.in_dim * out_dim;
    float sum = 0;
    if (attrs.transposed) {
      sum = by_lanes([from](int64_t k) { return from[k]; }, matrix + column * attrs.in_dim,
                     attrs.in_dim);
    } else {
      for (int64_t k = 0; k < attrs.in_dim; ++k) {
        sum = fmaf(from[k], matrix[k * out_dim + column], sum);
      }
    }
    out.row<float>(row)[i] = sum;
  }
}

__global__ void join_heads_kernel(TensorView x, TensorView y, TensorView out, int64_t heads) {
  const int64_t row = blockIdx.x, stride = int64_t{gridDim.y} * blockDim.x;
  const int64_t first = x.cols / heads, second = y.cols / heads;
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < out.cols; i += stride) {
    const int64_t head = i / (first + second), column = i % (first + second);
    out.row<float>(row)[i] = column < first ? x.row<float>(row)[head * first + column]
                                            : y.row<float>(row)[head * second + column - first];
  }
}

// One thread per head: it sums, then writes the head's columns.
__global__ void head_dot_kernel(TensorView x, TensorView y, TensorView weight, TensorView v,
                                TensorView out, int64_t heads) {
  const int64_t row = blockIdx.x, stride = int64_t{gridDim.y} * blockDim.x;
  const int64_t dim = x.cols / heads, v_dim = v.cols / heads;
  for (int64_t head = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; head < heads;
       head += stride) {
    const float *a = x.row<float>(row) + head * dim, *b = y.row<float>(row) + head * dim;
    const float dot = by_lanes([a, b](int64_t k) { return a[k] * b[k]; },
                               weight.row<float>(row) + head * dim, dim);
    const float* from = v.row<float>(row) + head * v_dim;
    float* to = out.row<float>(row) + head * v_dim;
    for (int64_t i = 0; i < v_dim; ++i) to[i] = dot * from[i];
  }
}

__global__ void expand_heads_kernel(TensorView x, TensorView out, int64_t heads) {
  const int64_t row = blockIdx.x, stride = int64_t{gridDim.y} * blockDim.x;
  const int64_t dim = out.cols / heads;
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < out.cols; i += stride) {
    out.row<float>(row)[i] = x.row<float>(row)[i / dim];
  }
}

}  // namespace

const char* head_linear(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  if (args.attrs.heads().heads <= 0) return nullptr;
  return launch(head_linear_kernel, row_grid(out.rows, out.cols), kRowThreads, args.queue,
                args.in[0], args.in[1], out, args.attrs.heads());
}

const char* join_heads(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  if (args.attrs.heads().heads <= 0) return nullptr;
  return launch(join_heads_kernel, row_grid(out.rows, out.cols), kRowThreads, args.queue,
                args.in[0], args.in[1], out, args.attrs.heads().heads);
}

const char* head_dot(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  if (args.attrs.heads().heads <= 0) return nullptr;
  return launch(head_dot_kernel, row_grid(out.rows, args.attrs.heads().heads), kRowThreads,
                args.queue, args.in[0], args.in[1], args.in[2], args.in[3], out,
                args.attrs.heads().heads);
}

const char* expand_heads(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  if (args.attrs.heads().heads <= 0) return nullptr;
  return launch(expand_heads_kernel, row_grid(out.rows, out.cols), kRowThreads, args.queue,
                args.in[0], out, args.attrs.heads().heads);
}

}  // namespace lockstep::LOCKSTEP_TARGET
