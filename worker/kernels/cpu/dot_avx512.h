// SPDX-License-Identifier: Apache-2.0
// Dot products in one zmm register.
#pragma once

#include "worker/kernels/cpu/vec_avx512.h"

namespace lockstep::LOCKSTEP_ISA {

struct Pairs {
  __m512i v;
  static Pairs load(const uint16_t* p) { return {_mm512_loadu_si512(p)}; }
  static Pairs splat(const uint16_t* p) {
    int32_t both;
    __builtin_memcpy(&both, p, sizeof(both));
    return {_mm512_set1_epi32(both)};
  }
};

#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 4
inline Vec dot_pairs(Pairs a, Pairs b, Vec c) {
  return {_mm512_dpbf16_ps(c.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v))};
}
#else
inline Vec odd_of(Pairs a) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  return {_mm512_castsi512_ps(_mm512_and_si512(a.v, upper))};
}
inline Vec even_of(Pairs a) { return {_mm512_castsi512_ps(_mm512_slli_epi32(a.v, 16))}; }
inline Vec dot_pairs(Pairs a, Pairs b, Vec c) {
  return fma(even_of(a), even_of(b), fma(odd_of(a), odd_of(b), c));
}
#endif

}  // namespace lockstep::LOCKSTEP_ISA
