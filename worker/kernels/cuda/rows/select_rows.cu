// SPDX-License-Identifier: Apache-2.0
// out[i] = x[output_rows[i]], of any type: the bytes are copied.
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

template <typename T>
__global__ void select_kernel(TensorView x, TensorView out, StepView step) {
  const int64_t row = blockIdx.x, stride = int64_t{gridDim.y} * blockDim.x;
  const T* from = x.row<T>(step.output_rows[row]);
  T* to = out.row<T>(row);
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < out.cols; i += stride) {
    to[i] = from[i];
  }
}

}  // namespace

const char* select_rows(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  const Grid grid = row_grid(out.rows, out.cols);
  if (dtype_bytes(x.dtype) == 4) {
    return launch(select_kernel<uint32_t>, grid, kRowThreads, args.queue, x, out, *args.step);
  }
  return launch(select_kernel<uint16_t>, grid, kRowThreads, args.queue, x, out, *args.step);
}

}  // namespace lockstep::LOCKSTEP_TARGET
