// SPDX-License-Identifier: Apache-2.0
// The sums of Hopper's tensor cores, bit for bit, as an H100 and an H200 computed them
// (tests/data/tensor_cores). They are the sums of mma.sync.m16n8k16, and of each 16 of K of wgmma,
// for bfloat16 or float16 with sums in float32. Older GPUs have fewer bits and add K in halves.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace lockstep::shim {

// A number is significand * 2^exponent, with a significand from 1 to 2, or below 1 if the number is
// subnormal. The exponents below mark zero and numbers that are not finite; the significand of the
// latter is the number itself.
inline constexpr int32_t kExponentOfZero = -10000, kExponentOfNonFinite = 20000;

// Some of the numbers of a row of A, or of a column of B.
template <int kCount>
struct alignas(16) Factors {
  float significands[kCount];
  int32_t exponents[kCount];

  // `number` has 16 bits in its own format, whose normal numbers have exponents from `min_exponent`
  // on; -126 for bfloat16, -14 for float16. Subnormal numbers have that exponent, too.
  void set(int at, float number, int32_t min_exponent) {
    const auto bits = std::bit_cast<uint32_t>(number);
    const auto field = static_cast<int32_t>(bits >> 23 & 0xff);
    const int32_t exponent = field - 127;
    significands[at] = number;
    if (field == 0xff) {
      exponents[at] = kExponentOfNonFinite;
    } else if (number == 0) {
      exponents[at] = kExponentOfZero;
    } else if (exponent < min_exponent) {
      exponents[at] = min_exponent;
      significands[at] =
          number * std::bit_cast<float>(static_cast<uint32_t>(127 - min_exponent) << 23);
    } else {
      exponents[at] = exponent;
      significands[at] = std::bit_cast<float>((bits & 0x807fffffu) | 0x3f800000u);
    }
  }

  template <int kPart>
  void set_part(int part, const Factors<kPart>& from) {
    std::copy_n(from.significands, kPart, significands + part * kPart);
    std::copy_n(from.exponents, kPart, exponents + part * kPart);
  }
};

// add_step() returns c plus the sum of the 16 products a[i] * b[i]; their order does not matter.
// Let e be the largest sum of two factors' exponents, or the exponent of c if that is larger. Each
// of the 17 numbers is cut off towards zero to a multiple of 2^(e - 25). Their sum is exact, and is
// then cut off towards zero to float32. Every NaN has the bits 0x7fffffff.
using StepFactors = Factors<16>;
float add_step(const StepFactors& a, const StepFactors& b, float c);

}  // namespace lockstep::shim
