// SPDX-License-Identifier: Apache-2.0
// y = x * the scale of the row's position + offset: one for every `length` positions, the last one
// for all that follow.
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/cpu/vec.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {

const char* position_scale(const KernelArgs& args) {
  const TensorView &x = args.in[0], &y = args.out[0];
  const OperatorAttrs& attrs = args.attrs;
  for_rows(*args.parallel, x.rows, x.cols, [&](int64_t r) {
    const int64_t index = (args.step->positions[r] + attrs.offset) / attrs.position_scale_length;
    const int64_t last = attrs.position_scale_count - 1;
    const Vec scale = Vec::splat(attrs.position_scales[index < last ? index : last]);
    const float* from = x.row<float>(r);
    float* to = y.row<float>(r);
    for (int64_t i = 0; i < x.cols; i += Vec::kLanes) {
      (Vec::load(from + i, x.cols - i) * scale).store(to + i, x.cols - i);
    }
  });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA
