// SPDX-License-Identifier: Apache-2.0
// The bodies of base/numbers/math.h, constexpr so that GPU code can call them and get the same
// bits. All other code uses base/numbers/math.h, which is compiled once. The functions reduce the
// argument, then sum a Taylor series, both in double. Constants are split so that the products of
// the reduction are exact: ln 2 in 32 + 53 bits, pi / 2 in 23 + 23 + 23 + 53 bits.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace lockstep::exact {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// 2^exponent for -1022 <= exponent <= 1023.
constexpr double power_of_two(int64_t exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// x rounded to an integer, ties away from zero; |x| < 2^52.
constexpr int64_t nearest(double x) { return static_cast<int64_t>(x < 0 ? x - 0.5 : x + 0.5); }

// An angle as a number of quarter turns and a remainder high + low of at most pi / 4.
struct Angle {
  int64_t quarter;
  double high;
  double low;
};

constexpr Angle reduce(double x) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kPart1 = 0x1.921fb4p+0;
  constexpr double kPart2 = 0x1.4442dp-24;
  constexpr double kPart3 = 0x1.846988p-48;
  constexpr double kPart4 = 0x1.8cc51701b839ap-72;
  const int64_t quarter = nearest(x * kTwoOverPi);
  const auto n = static_cast<double>(quarter);
  const double near = (x - n * kPart1) - n * kPart2;
  // near - n * kPart3 is exactly sum + lost: `lost` is the part that rounding removes.
  const double third = -(n * kPart3);
  const double sum = near + third;
  const double shadow = sum - near;
  const double lost = (near - (sum - shadow)) + (third - shadow);
  const double rest = lost - n * kPart4;
  const double high = sum + rest;
  return {quarter, high, (sum - high) + rest};
}

constexpr double sin_series(double x, double low) {
  const double s = x * x;
  double p = -1.0 / 121645100408832000;
  p = p * s + 1.0 / 355687428096000;
  p = p * s - 1.0 / 1307674368000;
  p = p * s + 1.0 / 6227020800;
  p = p * s - 1.0 / 39916800;
  p = p * s + 1.0 / 362880;
  p = p * s - 1.0 / 5040;
  p = p * s + 1.0 / 120;
  p = p * s - 1.0 / 6;
  return x + (p * s * x + low * (1 - 0.5 * s));
}

constexpr double cos_series(double x, double low) {
  const double s = x * x;
  double p = -1.0 / 6402373705728000;
  p = p * s + 1.0 / 20922789888000;
  p = p * s - 1.0 / 87178291200;
  p = p * s + 1.0 / 479001600;
  p = p * s - 1.0 / 3628800;
  p = p * s + 1.0 / 40320;
  p = p * s - 1.0 / 720;
  p = p * s + 1.0 / 24;
  return 1 - (0.5 * s - (p * s * s - low * x));
}

// The sine of x plus `quarters` quarter turns.
constexpr double sin_shifted(double x, int64_t quarters) {
  if (!(x < 0x1p30 && x > -0x1p30)) return kNan;
  const Angle a = reduce(x);
  const int64_t quarter = (a.quarter + quarters) & 3;
  const double y = quarter % 2 == 0 ? sin_series(a.high, a.low) : cos_series(a.high, a.low);
  return quarter < 2 ? y : -y;
}

// *series = e^r for |r| <= ln 2 / 2. Number is double, or a vector of doubles as in
// base/numbers/exact_exps.cc. Always inlined, so that the code uses the caller's instruction set.
template <typename Number>
[[gnu::always_inline]] inline constexpr void exp_series(const Number& r, Number* series) {
  Number p = Number{} + 1.0 / 87178291200;
  p = (p * r + 1.0 / 6227020800) * r + 1.0 / 479001600;
  p = (p * r + 1.0 / 39916800) * r + 1.0 / 3628800;
  p = (p * r + 1.0 / 362880) * r + 1.0 / 40320;
  p = (p * r + 1.0 / 5040) * r + 1.0 / 720;
  p = (p * r + 1.0 / 120) * r + 1.0 / 24;
  p = (p * r + 1.0 / 6) * r + 1.0 / 2;
  p = p * r + 1;
  *series = 1 + r * p;
}

constexpr double exp(double x) {
  if (x != x) return x;
  if (x > 709.79) return kInf;
  if (x < -745.14) return 0;
  const int64_t n = nearest(x * kLog2E);
  const double high = x - static_cast<double>(n) * kLn2High;
  const double r = high - static_cast<double>(n) * kLn2Low;
  double series = 0;
  exp_series(r, &series);
  // In two steps: 2^n itself may overflow or underflow although the result does not.
  const int64_t half = n / 2;
  return series * power_of_two(half) * power_of_two(n - half);
}

constexpr double log(double x) {
  if (x != x || x < 0) return kNan;
  if (x == 0) return -kInf;
  if (x == kInf) return x;
  int64_t exponent = 0;
  if (x < 0x1p-1022) {
    x = x * 0x1p54;
    exponent = -54;
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m = m * 0.5;
    exponent += 1;
  }
  // log m = 2 atanh(f), f = (m - 1) / (m + 1), |f| < 0.172.
  const double f = (m - 1) / (m + 1);
  const double s = f * f;
  double p = 1.0 / 25;
  for (int i = 23; i >= 3; i -= 2) p = p * s + 1.0 / i;
  const double series = 2 * f + 2 * f * s * p;
  const auto n = static_cast<double>(exponent);
  return n * kLn2High + (n * kLn2Low + series);
}

constexpr double sin(double x) { return sin_shifted(x, 0); }
constexpr double cos(double x) { return sin_shifted(x, 1); }

constexpr double pow(double base, double exponent) { return exp(exponent * log(base)); }

}  // namespace lockstep::exact
