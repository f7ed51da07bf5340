// SPDX-License-Identifier: Apache-2.0
// Functions of Vec that need more than one instruction, the same steps on every ISA.
#pragma once

#include "worker/kernels/cpu/vec.h"

namespace lockstep::LOCKSTEP_ISA {

inline constexpr float kInfinity = __builtin_inff();

// e^x = 2^n * e^r, |r| <= ln 2 / 2, by Taylor's series to r^7; within 2 ulp. Results below the
// smallest normal number are 0; NaN stays NaN.
inline Vec exp(Vec x) {
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e43p-1f, kLn2Low = -0x1.05c61p-29f;
  constexpr float kMin = -0x1.5d589ep+6f, kMax = 0x1.62e42ep+6f;  // e^x is normal between.
  const Vec n = round_even(x * Vec::splat(kLog2E));
  const Vec r = fma(n, Vec::splat(-kLn2Low), fma(n, Vec::splat(-kLn2High), x));
  Vec p = Vec::splat(1.0f / 5040);
  p = fma(p, r, Vec::splat(1.0f / 720));
  p = fma(p, r, Vec::splat(1.0f / 120));
  p = fma(p, r, Vec::splat(1.0f / 24));
  p = fma(p, r, Vec::splat(1.0f / 6));
  p = fma(p, r, Vec::splat(0.5f));
  p = fma(p, r, Vec::splat(1.0f));
  p = fma(p, r, Vec::splat(1.0f));
  Vec y = scale_by_power(p, n);
  y = select_less(x, Vec::splat(kMin), Vec::zero(), y);
  y = select_less(Vec::splat(kMax), x, Vec::splat(kInfinity), y);
  return select_number(x, y, x);
}

// x * sigmoid(x).
inline Vec silu(Vec x) {
  const Vec one = Vec::splat(1.0f);
  return x / (one + exp(Vec::zero() - x));
}

// Combines vectors in pairs of neighbours until one is left. kCount is a power of two.
template <int kCount, typename Combine>
Vec fold(const Vec (&v)[kCount], const Combine& combine) {
  Vec all[kCount];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) all[i] = v[i];
#pragma GCC unroll 4
  for (int half = kCount / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
    for (int i = 0; i < half; ++i) all[i] = combine(all[2 * i], all[2 * i + 1]);
  }
  return all[0];
}

// Over all lanes of several vectors, in the order of every such block.
template <int kCount>
float sum_block(const Vec (&v)[kCount]) {
  return sum(fold(v, [](Vec a, Vec b) { return a + b; }));
}
template <int kCount>
float max_block(const Vec (&v)[kCount]) {
  return max_lane(fold(v, [](Vec a, Vec b) { return max(a, b); }));
}

}  // namespace lockstep::LOCKSTEP_ISA
