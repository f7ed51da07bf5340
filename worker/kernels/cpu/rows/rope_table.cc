// SPDX-License-Identifier: Apache-2.0
// out[r] = the cosines, then the sines, of inv_freq[i] * (position of r), all times factor;
// inv_freq depends on the sequence's rope_length. The angle is a product rounded to float32, as in
// transformers; cos and sin are those of the rounded angle. Compiled for one ISA only: it runs once
// per step, and its functions are exact.
#include "base/numbers/math.h"
#include "worker/kernels/kernel.h"

namespace lockstep::portable {
namespace {

// The base of the frequencies at a position: theta, stretched as for a context that ends there.
float dynamic_base(const RopeTableAttrs& attrs, int64_t position) {
  const int64_t length = position + 1 > attrs.dynamic_length ? position + 1 : attrs.dynamic_length;
  const double factor = attrs.dynamic_factor, dim = static_cast<double>(rotary_dim_of(attrs));
  const double stretch =
      factor * static_cast<double>(length) / static_cast<double>(attrs.dynamic_length) -
      (factor - 1);
  return static_cast<float>(attrs.theta * exact_pow(stretch, dim / (dim - 2)));
}

}  // namespace

const char* rope_table(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  const RopeTableAttrs& attrs = args.attrs.rope_table();
  const int64_t rotary_dim = rotary_dim_of(attrs), half = rotary_dim / 2;
  if (half <= 0) return nullptr;
  for_each(*args.parallel, out.rows, [&](int64_t r) {
    const StepView& step = *args.step;
    const StepSequence& sequence = step.sequences[step.sequence_of_row[r]];
    const int64_t position = sequence.position_in(attrs.position_row, step.positions[r]);
    const float* own = inv_freq_for(attrs, sequence.rope_length);
    const float base = attrs.dynamic_length > 0 ? dynamic_base(attrs, position) : 0.0f;
    float* to = out.row<float>(r);
    for (int64_t i = 0; i < half; ++i) {
      float inv_freq = 0;
      if (attrs.dynamic_length > 0) {
        const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary_dim);
        inv_freq = 1.0f / static_cast<float>(exact_pow(base, exponent));
      } else {
        inv_freq = own[i];
      }
      const float angle = inv_freq * static_cast<float>(position);
      to[i] = static_cast<float>(exact_cos(angle)) * attrs.factor;
      to[half + i] = static_cast<float>(exact_sin(angle)) * attrs.factor;
    }
  });
  return nullptr;
}

}  // namespace lockstep::portable
