// SPDX-License-Identifier: Apache-2.0
// Scalar conversions between float and the two 16-bit formats: round to nearest even, NaN stays
// NaN. All are constexpr, so that GPU code can call them too.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep {

constexpr float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

constexpr uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// IEEE binary16 by exact arithmetic on floats: a half is m * 2^e with 11 bits of m, which a float
// holds. Keeps subnormals.
constexpr float f16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  }
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

constexpr uint16_t float_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity.
  if (magnitude < 0x38800000u) {         // Below 2^-14: subnormal, in units of 2^-24.
    constexpr float kRound = 0x1.8p23f;  // Adding it rounds to an integer.
    const float units = (std::bit_cast<float>(magnitude) * 0x1p24f + kRound) - kRound;
    return sign | static_cast<uint16_t>(units);
  }
  const uint32_t rebased = magnitude - (112u << 23);
  return sign | static_cast<uint16_t>((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13);
}

}  // namespace lockstep
