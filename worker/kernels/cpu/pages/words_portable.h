// SPDX-License-Identifier: Apache-2.0
// Words as arrays: the definition that the others must match.
#pragma once

#include "worker/kernels/cpu/vector/dot_portable.h"

namespace lockstep::LOCKSTEP_ISA {

struct Words {
  int16_t element[2 * Vec::kLanes];
  static Words load(const int8_t* p) {
    Words words;
    // Codes have a sign. NOLINTNEXTLINE(bugprone-signed-char-misuse)
    for (int64_t i = 0; i < 2 * Vec::kLanes; ++i) words.element[i] = p[i];
    return words;
  }
  static Words splat(const int16_t* p) {
    Words words;
    for (int64_t i = 0; i < 2 * Vec::kLanes; ++i) words.element[i] = p[i % 2];
    return words;
  }
};

inline Sums dot_words(const Words& a, const Words& b, Sums c) {
  for (int64_t i = 0; i < Vec::kLanes; ++i) {
    c.lane[i] += a.element[2 * i] * b.element[2 * i];
    c.lane[i] += a.element[2 * i + 1] * b.element[2 * i + 1];
  }
  return c;
}

inline void store_words(const Vec& v, int16_t* p) {
  for (int64_t i = 0; i < Vec::kLanes; ++i) {
    const float t = v.lane[i] + 12582912.0f;  // 1.5 * 2^23: the integer is in the lowest bits.
    p[i] = static_cast<int16_t>(__builtin_bit_cast(uint32_t, t));
  }
}

}  // namespace lockstep::LOCKSTEP_ISA
