// SPDX-License-Identifier: Apache-2.0
// Dot products in one zmm register.
#pragma once

#include "worker/kernels/cpu/vector/vec_avx512.h"

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

inline Vec odd_of(Pairs a) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  return {_mm512_castsi512_ps(_mm512_and_si512(a.v, upper))};
}
inline Vec even_of(Pairs a) { return {_mm512_castsi512_ps(_mm512_slli_epi32(a.v, 16))}; }
#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 5
inline Vec dot_pairs(Pairs a, Pairs b, Vec c) {
  return {_mm512_dpbf16_ps(c.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v))};
}
inline void store_normal(Vec v, uint16_t* p) {
  const __m256bh narrow = _mm512_cvtneps_pbh(v.v);
  __builtin_memcpy(p, &narrow, sizeof(narrow));
}
#else
inline Vec dot_pairs(Pairs a, Pairs b, Vec c) {
  return fma(even_of(a), even_of(b), fma(odd_of(a), odd_of(b), c));
}
#endif

struct Sums {
  __m512i v;
  static Sums splat(int32_t x) { return {_mm512_set1_epi32(x)}; }
  static Sums load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
  void store(int32_t* p) const { _mm512_storeu_si512(p, v); }
  void store_bytes(int8_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
  }
};

inline Sums operator+(Sums a, Sums b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline Sums max(Sums a, Sums b) { return {_mm512_max_epi32(a.v, b.v)}; }
inline int32_t sum(Sums a) { return _mm512_reduce_add_epi32(a.v); }
inline int32_t max_lane(Sums a) { return _mm512_reduce_max_epi32(a.v); }
inline Sums as_sums(Vec a) { return {_mm512_castps_si512(a.v)}; }
inline Vec to_float(Sums a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline Sums to_int(Vec a) { return {_mm512_cvtps_epi32(a.v)}; }
inline Sums magnitude(Vec a) {
  return {_mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7fffffff))};
}
inline Vec times_power(Vec a, int32_t shifted) {
  return {
      _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a.v), _mm512_set1_epi32(shifted)))};
}

struct Quads {
  __m512i v;
  static Quads load(const void* p) { return {_mm512_loadu_si512(p)}; }
  static Quads splat(const void* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof(four));
    return {_mm512_set1_epi32(four)};
  }
};

inline Quads low_nibbles(Quads a) { return {_mm512_and_si512(a.v, _mm512_set1_epi8(0x0f))}; }
inline Quads high_nibbles(Quads a) { return low_nibbles({_mm512_srli_epi16(a.v, 4)}); }

#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 4
// Assembly: in a loop with the intrinsic, GCC 12 would copy each sum.
inline Sums dot_quads(Quads u, Quads s, Sums c) {
  asm("vpdpbusd %2, %1, %0" : "+v"(c.v) : "v"(u.v), "v"(s.v));
  return c;
}
#else
// Even and odd bytes are widened to 16 bits: vpmaddubsw adds two products of bytes in 16 bits, but
// the sum may need 17.
inline Sums dot_quads(Quads u, Quads s, Sums c) {
  const __m512i even = _mm512_madd_epi16(_mm512_and_si512(u.v, _mm512_set1_epi16(0xff)),
                                         _mm512_srai_epi16(_mm512_slli_epi16(s.v, 8), 8));
  const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(u.v, 8), _mm512_srai_epi16(s.v, 8));
  return {_mm512_add_epi32(c.v, _mm512_add_epi32(even, odd))};
}
#endif

}  // namespace lockstep::LOCKSTEP_ISA
