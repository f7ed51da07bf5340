// SPDX-License-Identifier: Apache-2.0
// Words in one zmm register.
#pragma once

#include "worker/kernels/cpu/vector/dot_avx512.h"

namespace lockstep::LOCKSTEP_ISA {

struct Words {
  __m512i v;
  static Words load(const int8_t* p) {
    return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static Words splat(const int16_t* p) {
    int32_t both;
    __builtin_memcpy(&both, p, sizeof(both));
    return {_mm512_set1_epi32(both)};
  }
};

inline Sums dot_words(Words a, Words b, Sums c) {
#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 4
  return {_mm512_dpwssd_epi32(c.v, a.v, b.v)};
#else
  return {_mm512_add_epi32(c.v, _mm512_madd_epi16(a.v, b.v))};
#endif
}

inline void store_words(Vec v, int16_t* p) {
  const Vec t = v + Vec::splat(12582912.0f);  // 1.5 * 2^23: the integer is in the lowest bits.
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(_mm512_castps_si512(t.v)));
}

}  // namespace lockstep::LOCKSTEP_ISA
