// SPDX-License-Identifier: Apache-2.0
// out[r][c] = bias[c] + sum over taps j, in order, of weight[c][j] * x[r - taps + 1 + j][c] over
// the rows of a sequence; its state block has the last taps - 1 rows of x. A thread processes one
// column of a sequence through all its rows. The bits are the CPU's.
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

__global__ void conv_kernel(TensorView x, TensorView weight, TensorView bias, TensorView out,
                            StateView state, StepView step, int64_t taps) {
  const StepSequence& sequence = step.sequences[blockIdx.x];
  const int64_t before = taps - 1, stride = int64_t{gridDim.y} * blockDim.x;
  for (int64_t c = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; c < x.cols; c += stride) {
    const float* factors = weight.row<float>(0) + c * taps;
    float* block = state.block(sequence.slot) + c;
    float past[kMaxTaps];  // The rows before, oldest first, then the row itself.
    for (int64_t j = 0; j < before; ++j) {
      past[j] = sequence.first_position == 0 ? 0.0f : block[j * x.cols];
    }
    for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
      past[before] = x.row<float>(r)[c];
      float sum = bias.data == nullptr ? 0.0f : bias.row<float>(0)[c];
      for (int64_t j = 0; j <= before; ++j) sum = fmaf(factors[j], past[j], sum);
      out.row<float>(r)[c] = sum;
      for (int64_t j = 0; j < before; ++j) past[j] = past[j + 1];
    }
    for (int64_t j = 0; j < before; ++j) block[j * x.cols] = past[j];
  }
}

}  // namespace

const char* conv(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  if (x.cols <= 0) return nullptr;
  return launch(conv_kernel, row_grid(args.step->sequence_count, x.cols), kRowThreads, args.queue,
                x, args.in[1], args.in[2], args.out[0], args.state, *args.step,
                args.attrs.conv().taps);
}

}  // namespace lockstep::LOCKSTEP_TARGET
