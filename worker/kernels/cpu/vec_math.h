// SPDX-License-Identifier: Apache-2.0
// Functions of Vec that need more than one instruction, the same steps on every ISA.
#pragma once

#include "worker/kernels/cpu/vec.h"

namespace lockstep::LOCKSTEP_ISA {

inline constexpr float kInfinity = __builtin_inff();

// e^x = 2^n * e^r, |r| <= ln 2 / 2, by Taylor's series to r^7; within 2 ulp. Results below the
// least normal number are 0; NaN stays NaN.
inline Vec exp(Vec x) {
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e43p-1f, kLn2Low = -0x1.05c61p-29f;
  constexpr float kLeast = -0x1.5d589ep+6f, kMost = 0x1.62e42ep+6f;  // e^x is normal between.
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
  y = select_less(x, Vec::splat(kLeast), Vec::zero(), y);
  y = select_less(Vec::splat(kMost), x, Vec::splat(kInfinity), y);
  return select_number(x, y, x);
}

// x * sigmoid(x).
inline Vec silu(Vec x) {
  const Vec one = Vec::splat(1.0f);
  return x / (one + exp(Vec::zero() - x));
}

// The sum over 64 floats in the order of every block: four vectors in pairs, then the lanes' tree.
inline float sum_block(Vec a, Vec b, Vec c, Vec d) { return sum((a + b) + (c + d)); }

}  // namespace lockstep::LOCKSTEP_ISA
