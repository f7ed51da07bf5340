// SPDX-License-Identifier: Apache-2.0
// Words in two ymm registers.
#pragma once

#include "worker/kernels/cpu/vector/dot_avx2.h"

namespace lockstep::LOCKSTEP_ISA {

struct Words {
  __m256i low, high;
  static Words load(const int8_t* p) {
    const auto* both = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtepi8_epi16(_mm_loadu_si128(both)),
            _mm256_cvtepi8_epi16(_mm_loadu_si128(both + 1))};
  }
  static Words splat(const int16_t* p) {
    int32_t both;
    __builtin_memcpy(&both, p, sizeof(both));
    return {_mm256_set1_epi32(both), _mm256_set1_epi32(both)};
  }
};

inline Sums dot_words(Words a, Words b, Sums c) {
  return {dot_words(a.low, b.low, c.low), dot_words(a.high, b.high, c.high)};
}

inline void store_words(Vec v, int16_t* p) {
  const Vec t = v + Vec::splat(12582912.0f);  // 1.5 * 2^23: the integer is in the lowest bits.
  const __m256i lower = _mm256_set1_epi32(0xffff);
  const __m256i packed = _mm256_packus_epi32(_mm256_and_si256(_mm256_castps_si256(t.low), lower),
                                             _mm256_and_si256(_mm256_castps_si256(t.high), lower));
  // Packing works within halves of a register: restore the order of the quarters.
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}

}  // namespace lockstep::LOCKSTEP_ISA
