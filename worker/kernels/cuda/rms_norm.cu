// SPDX-License-Identifier: Apache-2.0
// y = x / sqrt(mean of x^2 + eps) * weight over a row (rms_norm), over each head of a row
// (head_norm), or over x + y, which is given too (add_norm). One block per row or head; its
// threads' sums are added in an order that depends on the width alone.
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

// Columns [blockIdx.y * width, + width) of row blockIdx.x. With an addend x + addend is stored to
// `total` first; every thread reads back only what it wrote.
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
  float squares = 0;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    squares = fmaf(from[i], from[i], squares);
  }
  const float mean = over_block<Sum>(squares) / static_cast<float>(width);
  const float scale = 1.0f / sqrtf(mean + eps);
  const float* factor = weight.row<float>(0);
  float* to = out.row<float>(row) + begin;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) to[i] = from[i] * scale * factor[i];
}

// The number of threads decides bits: it follows from the width alone.
int threads_of(int64_t width) { return width <= 256 ? kWarp : 256; }

}  // namespace

const char* rms_norm(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  if (x.cols <= 0) return nullptr;
  return launch(norm_kernel, {x.rows, 1}, threads_of(x.cols), args.queue, x, TensorView{},
                TensorView{}, args.in[1], args.out[0], x.cols, args.attrs.eps);
}

const char* head_norm(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  const int64_t dim = args.attrs.head_dim;
  if (x.cols <= 0) return nullptr;
  return launch(norm_kernel, {x.rows, x.cols / dim}, threads_of(dim), args.queue, x, TensorView{},
                TensorView{}, args.in[1], args.out[0], dim, args.attrs.eps);
}

const char* add_norm(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  if (x.cols <= 0) return nullptr;
  return launch(norm_kernel, {x.rows, 1}, threads_of(x.cols), args.queue, x, args.in[1],
                args.out[0], args.in[2], args.out[1], x.cols, args.attrs.eps);
}

}  // namespace lockstep::LOCKSTEP_TARGET
