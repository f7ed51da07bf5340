// SPDX-License-Identifier: Apache-2.0
// y = x * scale, where the row's position plus `offset` decides the scale: there is one scale for
// every `length` positions, and the last one is for all later positions. With log_factor, the scale
// is 1 before position `length`, then log(position + 1) * log_factor. The bits are the CPU's.
#include "worker/kernels/cuda/functions.h"
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

// log n for 1 <= n <= 2^24, from n = m * 2^e with 1 <= m < 2.
__device__ float log_of(int64_t n) {
  int e = 0;
  while (n >> (e + 1) > 0) ++e;
  const float m = static_cast<float>(n) / static_cast<float>(int64_t{1} << e);
  return fmaf(static_cast<float>(e), 0x1.62e43p-1f, log_of_more(m - 1.0f));
}

__device__ float scale_at(const PositionScaleAttrs& attrs, int64_t position) {
  const int64_t length = attrs.length;
  if (attrs.log_factor == 0.0f) {
    const int64_t index = (position + attrs.offset) / length;
    return attrs.scales[min(index, attrs.scales.size - 1)];
  }
  return position < length ? 1.0f : log_of(position + 1) * attrs.log_factor;
}

__global__ void position_scale_kernel(TensorView x, TensorView out, StepView step,
                                      PositionScaleAttrs attrs) {
  const int64_t row = blockIdx.x, stride = int64_t{gridDim.y} * blockDim.x;
  const float scale = scale_at(attrs, step.positions[row]);
  const float* from = x.row<float>(row);
  float* to = out.row<float>(row);
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < out.cols; i += stride) {
    to[i] = from[i] * scale;
  }
}

}  // namespace

const char* position_scale(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  return launch(position_scale_kernel, row_grid(out.rows, out.cols), kRowThreads, args.queue, x,
                out, *args.step, args.attrs.position_scale());
}

}  // namespace lockstep::LOCKSTEP_TARGET
