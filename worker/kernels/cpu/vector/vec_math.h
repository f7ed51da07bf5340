// SPDX-License-Identifier: Apache-2.0
// Functions of Vec that need several instructions, with the same steps on every ISA.
#pragma once

#include "worker/kernels/cpu/vector/vec.h"

namespace lockstep::LOCKSTEP_ISA {

inline constexpr float kInfinity = __builtin_inff();

// e^x = 2^n * e^r, |r| <= ln 2 / 2, by Taylor's series to r^7; within 2 ulp. Results below the
// smallest normal number are 0; NaN stays NaN.
inline Vec exp(Vec x) {
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e43p-1f, kLn2Low = -0x1.05c61p-29f;
  constexpr float kMin = -0x1.5d589ep+6f, kMax = 0x1.62e42ep+6f;  // e^x is normal between these.
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

// 1 / (1 + e^-x).
inline Vec sigmoid(Vec x) {
  const Vec one = Vec::splat(1.0f);
  return one / (one + exp(Vec::zero() - x));
}

inline Vec relu(Vec x) { return select_number(x, max(x, Vec::zero()), x); }

// The coefficient of the highest power is first.
template <int kCount>
Vec polynomial(Vec x, const float (&coefficients)[kCount]) {
  Vec y = Vec::splat(coefficients[0]);
#pragma GCC unroll 16
  for (int i = 1; i < kCount; ++i) y = fma(y, x, Vec::splat(coefficients[i]));
  return y;
}

// Polynomials of the Cephes library (tanhf, erff, erfcf: public domain).
inline constexpr float kTanhNear[] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                                      1.33314422036e-1f, -3.33332819422e-1f};
inline constexpr float kErfNear[] = {
    7.853861353153693e-5f, -8.010193625184903e-4f, 5.188327685732524e-3f, -2.685381193529856e-2f,
    1.128358514861418e-1f, -3.761262582423300e-1f, 1.128379165726710e+0f};
inline constexpr float kErfcMiddle[] = {
    2.326819970068386e-2f,  -1.387039388740657e-1f, 3.687424674597105e-1f,
    -5.824733027278666e-1f, 6.210004621745983e-1f,  -4.944515323274145e-1f,
    3.404879937665872e-1f,  -2.741127028184656e-1f, 5.638259427386472e-1f};
inline constexpr float kErfcFar[] = {
    -1.047766399936249e+1f, 1.297719955372516e+1f, -7.495518717768503e+0f, 2.921019019210786e+0f,
    -1.015265279202700e+0f, 4.218463358204948e-1f, -2.820767439740514e-1f, 5.641895067754075e-1f};

// The positive y with the sign of x.
inline Vec with_sign_of(Vec x, Vec y) { return select_less(x, Vec::zero(), Vec::zero() - y, y); }

// Within 2 ulp: a polynomial below 0.625, else through e^2x.
inline Vec tanh(Vec x) {
  const Vec one = Vec::splat(1.0f), z = x * x, size = max(x, Vec::zero() - x);
  const Vec near = fma(polynomial(z, kTanhNear) * z, x, x);
  const Vec far = one - Vec::splat(2.0f) / (exp(size + size) + one);
  return select_number(x, select_less(size, Vec::splat(0.625f), near, with_sign_of(x, far)), x);
}

// Within 2 ulp: a polynomial below 1, else 1 - e^(-x^2) / |x| * one of two polynomials in 1 / x^2.
inline Vec erf(Vec x) {
  const Vec one = Vec::splat(1.0f), z = x * x, size = max(x, Vec::zero() - x);
  const Vec near = x * polynomial(z, kErfNear);
  const Vec q = one / size, q2 = q * q;
  const Vec tail =
      select_less(size, Vec::splat(2.0f), polynomial(q2, kErfcMiddle), polynomial(q2, kErfcFar));
  const Vec far = one - exp(Vec::zero() - z) * q * tail;
  return select_number(x, select_less(size, one, near, with_sign_of(x, far)), x);
}

// log(1 + x), 0 <= x <= 1, within 2 ulp: 2 artanh(s), s = x / (2 + x) <= 1/3, by its series.
inline Vec log_of_more(Vec x) {
  const Vec s = x / (Vec::splat(2.0f) + x), z = s * s;
  constexpr float kSeries[] = {2.0f / 17, 2.0f / 15, 2.0f / 13, 2.0f / 11,
                               2.0f / 9,  2.0f / 7,  2.0f / 5,  2.0f / 3};
  return fma(polynomial(z, kSeries) * z, s, s + s);
}

// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|).
inline Vec softplus(Vec x) {
  const Vec size = max(x, Vec::zero() - x);
  const Vec y = max(x, Vec::zero()) + log_of_more(exp(Vec::zero() - size));
  return select_number(x, y, x);
}

// x / 2 * (1 + erf(x / sqrt(2))).
inline Vec gelu(Vec x) {
  return x * Vec::splat(0.5f) * (Vec::splat(1.0f) + erf(x * Vec::splat(0x1.6a09e6p-1f)));
}

// x / 2 * (1 + tanh(u)) = x * sigmoid(2u), u = sqrt(2 / pi) * (x + 0.044715 x^3).
inline Vec gelu_tanh(Vec x) {
  constexpr float kTwice = 1.5957691216057308f, kCubic = 0.0713548162726f;
  const Vec twice_u = x * fma(x * x, Vec::splat(kCubic), Vec::splat(kTwice));
  return x / (Vec::splat(1.0f) + exp(Vec::zero() - twice_u));
}

// Combines pairs of neighbours until one vector is left. kCount is a power of two.
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

// The sum over all lanes of several vectors, always in the same order.
template <int kCount>
float sum_block(const Vec (&v)[kCount]) {
  return sum(fold(v, [](Vec a, Vec b) { return a + b; }));
}
template <int kCount>
float max_block(const Vec (&v)[kCount]) {
  return max_lane(fold(v, [](Vec a, Vec b) { return max(a, b); }));
}

}  // namespace lockstep::LOCKSTEP_ISA
