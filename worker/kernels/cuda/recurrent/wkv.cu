// SPDX-License-Identifier: Apache-2.0
// RWKV-4's mean, column by column, computed as in cpu/recurrent/wkv.cc and with its bits. A thread
// processes one column of a sequence through all its rows.
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

constexpr float kEmptyScale = -1e38f;  // The scale of empty sums.

struct Sums {
  float above, below, scale;

  __device__ Sums with(float v, float exponent, float shift) const {
    const float old = scale + shift, largest = Max::of(old, exponent);
    const float kept = exp_of(old - largest), added = exp_of(exponent - largest);
    return {fmaf(kept, above, added * v), fmaf(kept, below, added), largest};
  }
};

struct WkvParams {
  TensorView k, v, decay, first, out;
  StateView state;
  StepView step;
};

__global__ void wkv_kernel(WkvParams p) {
  const StepSequence& sequence = p.step.sequences[blockIdx.x];
  const int64_t cols = p.k.cols, stride = int64_t{gridDim.y} * blockDim.x;
  for (int64_t c = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; c < cols; c += stride) {
    const float decay = 0.0f - exp_of(p.decay.row<float>(0)[c]), first = p.first.row<float>(0)[c];
    float* block = p.state.block(sequence.slot) + c;
    Sums sums = {0.0f, 0.0f, kEmptyScale};
    if (sequence.first_position > 0) sums = {block[0], block[cols], block[2 * cols]};
    for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
      const float key = p.k.row<float>(r)[c], value = p.v.row<float>(r)[c];
      const Sums now = sums.with(value, first + key, 0.0f);
      p.out.row<float>(r)[c] = now.above / now.below;
      sums = sums.with(value, key, decay);
    }
    block[0] = sums.above;
    block[cols] = sums.below;
    block[2 * cols] = sums.scale;
  }
}

}  // namespace

const char* wkv(const KernelArgs& args) {
  const TensorView& k = args.in[0];
  if (k.cols <= 0) return nullptr;
  const WkvParams params = {k,           args.in[1], args.in[2], args.in[3],
                            args.out[0], args.state, *args.step};
  return launch(wkv_kernel, row_grid(args.step->sequence_count, k.cols), kRowThreads, args.queue,
                params);
}

}  // namespace lockstep::LOCKSTEP_TARGET
