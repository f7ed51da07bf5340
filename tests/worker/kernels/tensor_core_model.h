// SPDX-License-Identifier: Apache-2.0
// A slow, plain model of the sums of a Hopper tensor core. Tests compare the shim with it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace lockstep {

inline constexpr int kMinExponentOfBF16 = -126, kMinExponentOfF16 = -14;

// Subnormal numbers have the exponent of the smallest normal one.
inline int exponent_of(float x, int min_exponent) { return std::max(std::ilogb(x), min_exponent); }

// c plus the products of 16 numbers of a and b, whose format has normal numbers from 2^min_exponent
// on; see shim/tensor_core.h.
inline float modelled_step(const float* a, const float* b, float c, int min_exponent) {
  constexpr int kBits = 25;
  int highest = c == 0 ? -126 : exponent_of(c, -126);
  double plain = c;
  for (int i = 0; i < 16; ++i) {
    plain += static_cast<double>(a[i]) * b[i];
    if (a[i] == 0 || b[i] == 0) continue;
    highest = std::max(highest, exponent_of(a[i], min_exponent) + exponent_of(b[i], min_exponent));
  }
  if (std::isnan(plain)) return std::bit_cast<float>(0x7fffffffu);
  if (std::isinf(plain)) return static_cast<float>(plain);
  double sum = std::trunc(std::ldexp(static_cast<double>(c), kBits - highest));
  for (int i = 0; i < 16; ++i) {
    const double product = static_cast<double>(a[i]) * b[i];
    sum += std::trunc(std::ldexp(product, kBits - highest));
  }
  if (sum == 0) return 0;
  sum = std::ldexp(sum, highest - kBits);
  const int unit = std::max(std::ilogb(sum), -126) - 23;
  const double units = std::trunc(std::ldexp(sum, -unit));
  return units == 0 ? 0 : static_cast<float>(std::ldexp(units, unit));
}

}  // namespace lockstep
