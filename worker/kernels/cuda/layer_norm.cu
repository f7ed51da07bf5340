// SPDX-License-Identifier: Apache-2.0
// y = (x - mean) / sqrt(mean of (x - mean)^2 + eps) * weight (+ bias) over a row. One block per
// row; its threads' sums are added in an order that depends on the width alone.
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

__global__ void layer_norm_kernel(TensorView x, TensorView weight, TensorView bias, TensorView out,
                                  float eps) {
  const int64_t row = blockIdx.x, width = x.cols;
  const float* from = x.row<float>(row);
  float total = 0;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) total += from[i];
  const float mean = over_block<Sum>(total) / static_cast<float>(width);
  float squares = 0;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    squares = fmaf(from[i] - mean, from[i] - mean, squares);
  }
  const float variance = over_block<Sum>(squares) / static_cast<float>(width);
  const float scale = 1.0f / sqrtf(variance + eps);
  const float* factor = weight.row<float>(0);
  const float* added = bias.data == nullptr ? nullptr : bias.row<float>(0);
  float* to = out.row<float>(row);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    to[i] = fmaf((from[i] - mean) * scale, factor[i], added == nullptr ? 0.0f : added[i]);
  }
}

// The number of threads decides bits: it follows from the width alone.
int threads_of(int64_t width) { return width <= 256 ? kWarp : 256; }

}  // namespace

const char* layer_norm(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  if (x.cols <= 0) return nullptr;
  return launch(layer_norm_kernel, {x.rows, 1}, threads_of(x.cols), args.queue, x, args.in[1],
                args.in[2], args.out[0], args.attrs.eps);
}

}  // namespace lockstep::LOCKSTEP_TARGET
