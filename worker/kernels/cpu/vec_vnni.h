// SPDX-License-Identifier: Apache-2.0
// Dot products of integers in a ymm register: AVX-VNNI's, or spelled out where LOCKSTEP_ISA has
// none.
#pragma once

#include <immintrin.h>

// Before an instruction of AVX-VNNI, to mean its own form and not that of AVX-512, which only the
// twin for processors with nothing else has.
#if defined(__AVX512VNNI__)
#define LOCKSTEP_VNNI ""
#else
#define LOCKSTEP_VNNI "%{vex%} "
#endif

namespace lockstep::LOCKSTEP_ISA {

#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 2
// Written out, as with AVX-512: no copies of sums, and no doubt about its form.
inline __m256i dot_quads(__m256i u, __m256i s, __m256i c) {
  asm(LOCKSTEP_VNNI "vpdpbusd %2, %1, %0" : "+x"(c) : "x"(u), "x"(s));
  return c;
}
inline __m256i dot_words(__m256i a, __m256i b, __m256i c) {
  asm(LOCKSTEP_VNNI "vpdpwssd %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
  return c;
}
#else
// Even and odd bytes as 16 bits: a product of two bytes, and the sum of two, need 17.
inline __m256i dot_quads(__m256i u, __m256i s, __m256i c) {
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi16(0xff)),
                                         _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
  return _mm256_add_epi32(c, _mm256_add_epi32(even, odd));
}
inline __m256i dot_words(__m256i a, __m256i b, __m256i c) {
  return _mm256_add_epi32(c, _mm256_madd_epi16(a, b));
}
#endif

}  // namespace lockstep::LOCKSTEP_ISA
