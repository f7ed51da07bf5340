// SPDX-License-Identifier: Apache-2.0
// Dot products in two ymm registers.
#pragma once

#include "worker/kernels/cpu/vec_avx2.h"

namespace lockstep::avx2 {

struct Pairs {
  __m256i low, high;
  static Pairs load(const uint16_t* p) {
    const auto* both = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(both), _mm256_loadu_si256(both + 1)};
  }
  static Pairs splat(const uint16_t* p) {
    int32_t both;
    __builtin_memcpy(&both, p, sizeof(both));
    return {_mm256_set1_epi32(both), _mm256_set1_epi32(both)};
  }
};

inline Vec odd_of(Pairs a) {
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  return {_mm256_castsi256_ps(_mm256_and_si256(a.low, upper)),
          _mm256_castsi256_ps(_mm256_and_si256(a.high, upper))};
}
inline Vec even_of(Pairs a) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(a.low, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(a.high, 16))};
}
inline Vec dot_pairs(Pairs a, Pairs b, Vec c) {
  return fma(even_of(a), even_of(b), fma(odd_of(a), odd_of(b), c));
}

}  // namespace lockstep::avx2
