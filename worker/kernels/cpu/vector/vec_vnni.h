// SPDX-License-Identifier: Apache-2.0
// Dot products of integers in a ymm register, by AVX-VNNI's instructions or, if LOCKSTEP_ISA has
// none, by others.
#pragma once

#include <immintrin.h>

// The prefix that selects AVX-VNNI's encoding. Only the emulated kernels, for CPUs without
// AVX-VNNI, use AVX-512's encoding.
#if defined(__AVX512VNNI__)
#define LOCKSTEP_VNNI ""
#else
#define LOCKSTEP_VNNI "%{vex%} "
#endif

namespace lockstep::LOCKSTEP_ISA {

#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 2
// Assembly, for the reason in dot_avx512.h, and because only assembly fixes the encoding.
inline __m256i dot_quads(__m256i u, __m256i s, __m256i c) {
  asm(LOCKSTEP_VNNI "vpdpbusd %2, %1, %0" : "+x"(c) : "x"(u), "x"(s));
  return c;
}
inline __m256i dot_words(__m256i a, __m256i b, __m256i c) {
  asm(LOCKSTEP_VNNI "vpdpwssd %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
  return c;
}
#else
// Even and odd bytes are widened to 16 bits: vpmaddubsw adds two products of bytes in 16 bits, but
// the sum may need 17.
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
