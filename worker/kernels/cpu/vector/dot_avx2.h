// SPDX-License-Identifier: Apache-2.0
// Dot products in two ymm registers.
#pragma once

#include "worker/kernels/cpu/vector/vec_avx2.h"
#include "worker/kernels/cpu/vector/vec_vnni.h"

namespace lockstep::LOCKSTEP_ISA {

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

struct Sums {
  __m256i low, high;
  static Sums splat(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  static Sums load(const int32_t* p) {
    const auto* both = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(both), _mm256_loadu_si256(both + 1)};
  }
  void store(int32_t* p) const {
    auto* both = reinterpret_cast<__m256i*>(p);
    _mm256_storeu_si256(both, low);
    _mm256_storeu_si256(both + 1, high);
  }
  void store_bytes(int8_t* p) const {
    // Packing works within halves of a register: restore the order of the quarters.
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  }
};

inline Sums operator+(Sums a, Sums b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
inline Sums max(Sums a, Sums b) {
  return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
}
inline int32_t sum(Sums a) {
  int32_t lanes[16], total = 0;
  a.store(lanes);
  for (const int32_t lane : lanes) total += lane;
  return total;
}
inline int32_t max_lane(Sums a) {
  int32_t lanes[16], largest = 0;
  a.store(lanes);
  for (const int32_t lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}
inline Sums as_sums(Vec a) { return {_mm256_castps_si256(a.low), _mm256_castps_si256(a.high)}; }
inline Vec to_float(Sums a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }
inline Sums to_int(Vec a) { return {_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high)}; }
inline Sums magnitude(Vec a) {
  const __m256i rest = _mm256_set1_epi32(0x7fffffff);
  return {_mm256_and_si256(_mm256_castps_si256(a.low), rest),
          _mm256_and_si256(_mm256_castps_si256(a.high), rest)};
}
inline Vec times_power(Vec a, int32_t shifted) {
  const __m256i power = _mm256_set1_epi32(shifted);
  return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a.low), power)),
          _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a.high), power))};
}

struct Quads {
  __m256i low, high;
  static Quads load(const void* p) {
    const auto* both = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(both), _mm256_loadu_si256(both + 1)};
  }
  static Quads splat(const void* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof(four));
    return {_mm256_set1_epi32(four), _mm256_set1_epi32(four)};
  }
};

inline Quads low_nibbles(Quads a) {
  const __m256i mask = _mm256_set1_epi8(0x0f);
  return {_mm256_and_si256(a.low, mask), _mm256_and_si256(a.high, mask)};
}
inline Quads high_nibbles(Quads a) {
  return low_nibbles({_mm256_srli_epi16(a.low, 4), _mm256_srli_epi16(a.high, 4)});
}

inline Sums dot_quads(Quads u, Quads s, Sums c) {
  return {dot_quads(u.low, s.low, c.low), dot_quads(u.high, s.high, c.high)};
}

}  // namespace lockstep::LOCKSTEP_ISA
