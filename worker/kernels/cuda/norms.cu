// SPDX-License-Identifier: Apache-2.0
// y = x / sqrt(mean of x^2 + eps) * weight over a row (rms_norm), or over x + y, which is also an
// output (add_norm); y = (x - mean) / sqrt(mean of (x - mean)^2 + eps) * weight (+ bias) over a row
// (layer_norm); either of them over each head of a row (head_norm). One block per row or head; its
// threads' sums are added in an order that depends on the width alone.
#include "worker/kernels/cuda/norm_row.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

// A block's columns of a weight or bias, which has as many columns as x or is the same for all
// blocks; null if there is none.
__device__ const float* own_part(const TensorView& weight, const TensorView& x, int64_t begin) {
  if (weight.data == nullptr) return nullptr;
  return weight.row<float>(0) + (weight.cols == x.cols ? begin : 0);
}

// Columns [blockIdx.y * width, + width) of row blockIdx.x, with own_part() of the weight. If there
// is an addend, x + addend is first stored in `total`; every thread reads back only what it wrote.
__global__ void norm_kernel(TensorView x, TensorView addend, TensorView total, TensorView weight,
                            TensorView out, int64_t width, float eps) {
  const int64_t row = blockIdx.x, begin = blockIdx.y * width;
  const float* from = x.row<float>(row) + begin;
  if (addend.data != nullptr) {
    const float* other = addend.row<float>(row) + begin;
    float* sum = total.row<float>(row) + begin;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) sum[i] = from[i] + other[i];
    from = sum;
  }
  norm_row(from, own_part(weight, x, begin), width, eps, out, row, begin);
}

// Like norm_kernel, with the mean subtracted first.
__global__ void centred_norm_kernel(TensorView x, TensorView weight, TensorView bias,
                                    TensorView out, int64_t width, float eps) {
  const int64_t row = blockIdx.x, begin = blockIdx.y * width;
  const float* from = x.row<float>(row) + begin;
  float total = 0;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) total += from[i];
  const float mean = over_block<Sum>(total) / static_cast<float>(width);
  float squares = 0;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    squares = fmaf(from[i] - mean, from[i] - mean, squares);
  }
  const float variance = over_block<Sum>(squares) / static_cast<float>(width);
  const float scale = 1.0f / sqrtf(variance + eps);
  const float *factor = own_part(weight, x, begin), *added = own_part(bias, x, begin);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const float y = fmaf((from[i] - mean) * scale, factor == nullptr ? 1.0f : factor[i],
                         added == nullptr ? 0.0f : added[i]);
    set_element(out, row, begin + i, y);
  }
}

const char* norm(const KernelArgs& args, int64_t width) {
  const TensorView& x = args.in[0];
  if (x.cols <= 0) return nullptr;
  return launch(norm_kernel, {x.rows, x.cols / width}, norm_threads(width), args.queue, x,
                TensorView{}, TensorView{}, args.in[1], args.out[0], width, args.attrs.norm().eps);
}

const char* centred_norm(const KernelArgs& args, int64_t width) {
  const TensorView& x = args.in[0];
  if (x.cols <= 0) return nullptr;
  return launch(centred_norm_kernel, {x.rows, x.cols / width}, norm_threads(width), args.queue, x,
                args.in[1], args.in[2], args.out[0], width, args.attrs.norm().eps);
}

}  // namespace

const char* rms_norm(const KernelArgs& args) { return norm(args, args.in[0].cols); }

const char* layer_norm(const KernelArgs& args) { return centred_norm(args, args.in[0].cols); }

const char* head_norm(const KernelArgs& args) {
  const int64_t dim = args.attrs.norm().head_dim;
  return args.attrs.norm().centred ? centred_norm(args, dim) : norm(args, dim);
}

const char* add_norm(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  if (x.cols <= 0) return nullptr;
  return launch(norm_kernel, {x.rows, 1}, norm_threads(x.cols), args.queue, x, args.in[1],
                args.out[0], args.in[2], args.out[1], x.cols, args.attrs.norm().eps);
}

}  // namespace lockstep::LOCKSTEP_TARGET
