// SPDX-License-Identifier: Apache-2.0
// y = x * the scale of the row's position + offset: one for every `length` positions, the last one
// for all that follow. The CPU's bits.
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

__global__ void position_scale_kernel(TensorView x, TensorView out, StepView step,
                                      OperatorAttrs attrs) {
  const int64_t row = blockIdx.x, stride = int64_t{gridDim.y} * blockDim.x;
  const int64_t index = (step.positions[row] + attrs.offset) / attrs.position_scale_length;
  const float scale = attrs.position_scales[min(index, attrs.position_scale_count - 1)];
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
                out, *args.step, args.attrs);
}

}  // namespace lockstep::LOCKSTEP_TARGET
