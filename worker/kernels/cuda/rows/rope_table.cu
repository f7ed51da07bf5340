// SPDX-License-Identifier: Apache-2.0
// out[r] = the cosines, then the sines, of inv_freq[i] * (position of r), all times factor;
// inv_freq depends on the sequence's rope_length. The angle is a product rounded to float32, as in
// transformers; cos and sin are those of the rounded angle. The bits are the CPU's.
#include "base/numbers/exact.h"
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

// The base of the frequencies at a position: theta, stretched as for a context that ends there.
__device__ float dynamic_base(const RopeTableAttrs& attrs, int64_t position) {
  const int64_t length = max(position + 1, attrs.dynamic_length);
  const double factor = attrs.dynamic_factor, dim = static_cast<double>(rotary_dim_of(attrs));
  const double stretch =
      factor * static_cast<double>(length) / static_cast<double>(attrs.dynamic_length) -
      (factor - 1);
  return static_cast<float>(attrs.theta * exact::pow(stretch, dim / (dim - 2)));
}

__device__ float frequency(const RopeTableAttrs& attrs, int64_t i, int64_t position,
                           int64_t rope_length) {
  if (attrs.dynamic_length <= 0) return inv_freq_for(attrs, rope_length)[i];
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary_dim_of(attrs));
  return 1.0f / static_cast<float>(exact::pow(dynamic_base(attrs, position), exponent));
}

__global__ void table_kernel(TensorView out, StepView step, RopeTableAttrs attrs) {
  const int64_t row = blockIdx.x, half = rotary_dim_of(attrs) / 2;
  const StepSequence& sequence = step.sequences[step.sequence_of_row[row]];
  const int64_t position = sequence.position_in(attrs.position_row, step.positions[row]);
  float* to = out.row<float>(row);
  for (int64_t i = threadIdx.x; i < half; i += blockDim.x) {
    const float angle =
        frequency(attrs, i, position, sequence.rope_length) * static_cast<float>(position);
    to[i] = static_cast<float>(exact::cos(angle)) * attrs.factor;
    to[half + i] = static_cast<float>(exact::sin(angle)) * attrs.factor;
  }
}

}  // namespace

const char* rope_table(const KernelArgs& args) {
  if (rotary_dim_of(args.attrs.rope_table()) < 2) return nullptr;
  return launch(table_kernel, {args.out[0].rows, 1}, 64, args.queue, args.out[0], *args.step,
                args.attrs.rope_table());
}

}  // namespace lockstep::LOCKSTEP_TARGET
