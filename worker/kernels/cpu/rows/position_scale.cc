// SPDX-License-Identifier: Apache-2.0
// y = x * scale, where the row's position plus `offset` decides the scale: there is one scale for
// every `length` positions, and the last one is for all later positions. With log_factor, the scale
// is 1 before position `length`, then log(position + 1) * log_factor.
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/cpu/vector/vec.h"
#include "worker/kernels/cpu/vector/vec_math.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

// log n for 1 <= n <= 2^24, from n = m * 2^e with 1 <= m < 2.
Vec log_of(int64_t n) {
  const int e = 63 - __builtin_clzll(static_cast<unsigned long long>(n));
  const float m = static_cast<float>(n) / static_cast<float>(int64_t{1} << e);
  return fma(Vec::splat(static_cast<float>(e)), Vec::splat(0x1.62e43p-1f),
             log_of_more(Vec::splat(m - 1.0f)));
}

Vec scale_at(const PositionScaleAttrs& attrs, int64_t position) {
  const int64_t length = attrs.length, last = attrs.scales.size - 1;
  if (attrs.log_factor == 0) {
    const int64_t index = (position + attrs.offset) / length;
    return Vec::splat(attrs.scales[index < last ? index : last]);
  }
  if (position < length) return Vec::splat(1.0f);
  return log_of(position + 1) * Vec::splat(attrs.log_factor);
}

}  // namespace

const char* position_scale(const KernelArgs& args) {
  const TensorView &x = args.in[0], &y = args.out[0];
  const PositionScaleAttrs& attrs = args.attrs.position_scale();
  for_rows(*args.parallel, x.rows, x.cols, [&](int64_t r) {
    const Vec scale = scale_at(attrs, args.step->positions[r]);
    const float* from = x.row<float>(r);
    float* to = y.row<float>(r);
    for (int64_t i = 0; i < x.cols; i += Vec::kLanes) {
      (Vec::load(from + i, x.cols - i) * scale).store(to + i, x.cols - i);
    }
  });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA
