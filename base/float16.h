// SPDX-License-Identifier: Apache-2.0
// Scalar conversions between float and the two 16-bit formats: round to nearest even, NaN stays
// NaN.
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

// IEEE binary16. Subnormals are kept.
float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float value);

}  // namespace lockstep
