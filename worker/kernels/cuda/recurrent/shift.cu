// SPDX-License-Identifier: Apache-2.0
// out[r] = x[r - 1] over the rows of a sequence; its state block has the last row of x. A thread
// processes one column of a sequence through all its rows.
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

__global__ void shift_kernel(TensorView x, TensorView out, StateView state, StepView step) {
  const StepSequence& sequence = step.sequences[blockIdx.x];
  const int64_t stride = int64_t{gridDim.y} * blockDim.x;
  for (int64_t c = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; c < x.cols; c += stride) {
    float* block = state.block(sequence.slot) + c;
    float before = sequence.first_position == 0 ? 0.0f : *block;
    for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
      out.row<float>(r)[c] = before;
      before = x.row<float>(r)[c];
    }
    *block = before;
  }
}

}  // namespace

const char* shift(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  if (x.cols <= 0) return nullptr;
  return launch(shift_kernel, row_grid(args.step->sequence_count, x.cols), kRowThreads, args.queue,
                x, args.out[0], args.state, *args.step);
}

}  // namespace lockstep::LOCKSTEP_TARGET
