// SPDX-License-Identifier: Apache-2.0
// Vec as two ymm registers: AVX2 with FMA. Partial loads and stores use masks of 32-bit lanes;
// those of 16-bit numbers use a copy on the stack.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {

struct Vec {
  static constexpr int64_t kLanes = 16;
  __m256 low;
  __m256 high;

  // A mask of the lanes i with begin + i < n.
  static __m256i mask(int64_t begin, int64_t n) {
    const auto left = static_cast<int>(n < kLanes ? n - begin : kLanes);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static __m256 widen(__m128i bf16) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bf16), 16));
  }
  static Vec splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static Vec load(const float* p, int64_t n) {
    if (n >= kLanes) return load(p);
    const __m256 low = _mm256_maskload_ps(p, mask(0, n));
    if (n <= 8) return {low, _mm256_setzero_ps()};
    return {low, _mm256_maskload_ps(p + 8, mask(8, n))};
  }
  static Vec load(const uint16_t* p) {
    return {widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  template <typename T>  // uint16_t or Half
  static Vec load(const T* p, int64_t n) {
    if (n >= kLanes) return load(p);
    T whole[kLanes] = {};
    for (int64_t i = 0; i < n; ++i) whole[i] = p[i];
    return load(whole);
  }
  static Vec load_twice(const float* p, int64_t n) {
    const __m256 eight = load(p, n < 8 ? n : 8).low;
    const __m256i low = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    const __m256i high = _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7);
    return {_mm256_permutevar8x32_ps(eight, low), _mm256_permutevar8x32_ps(eight, high)};
  }
  static Vec load(const Half* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  void store(float* p) const {
    _mm256_storeu_ps(p, low);
    _mm256_storeu_ps(p + 8, high);
  }
  void store(float* p, int64_t n) const {
    if (n >= kLanes) return store(p);
    _mm256_maskstore_ps(p, mask(0, n), low);
    if (n > 8) _mm256_maskstore_ps(p + 8, mask(8, n), high);
  }
  static __m256i narrow(__m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i upper = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, quiet, nan);
  }
  void store(uint16_t* p) const {
    // Packing works within halves of a register: restore the order of the quarters.
    const __m256i packed = _mm256_packus_epi32(narrow(low), narrow(high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
  }
  void store(uint16_t* p, int64_t n) const {
    if (n >= kLanes) return store(p);
    uint16_t whole[kLanes];
    store(whole);
    for (int64_t i = 0; i < n; ++i) p[i] = whole[i];
  }
};

inline constexpr int kTileRowsF32 = 3;
inline constexpr int kTileRowsCodes = 2;
inline constexpr int kTileRowsGroups = 2;
inline constexpr int kTileRowsBF16 = 2;
inline constexpr int kTileQueries = 4;
inline constexpr int kTileSums = 4;

inline Vec operator+(Vec a, Vec b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Vec operator-(Vec a, Vec b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline Vec operator*(Vec a, Vec b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline Vec operator/(Vec a, Vec b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Vec sqrt(Vec a) { return {_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)}; }
inline Vec swap_neighbours(Vec a) {
  return {_mm256_permute_ps(a.low, 0xb1), _mm256_permute_ps(a.high, 0xb1)};
}
inline Vec max(Vec a, Vec b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline Vec select_less(Vec a, Vec b, Vec yes, Vec no) {
  return {_mm256_blendv_ps(no.low, yes.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
          _mm256_blendv_ps(no.high, yes.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}
inline Vec select_number(Vec a, Vec yes, Vec no) {
  return {_mm256_blendv_ps(no.low, yes.low, _mm256_cmp_ps(a.low, a.low, _CMP_ORD_Q)),
          _mm256_blendv_ps(no.high, yes.high, _mm256_cmp_ps(a.high, a.high, _CMP_ORD_Q))};
}
inline Vec round_even(Vec a) {
  return {_mm256_round_ps(a.low, _MM_FROUND_TO_NEAREST_INT),
          _mm256_round_ps(a.high, _MM_FROUND_TO_NEAREST_INT)};
}
inline __m256 scale_by_power(__m256 v, __m256 n) {
  const __m256i power = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(v), power));
}
inline Vec scale_by_power(Vec v, Vec n) {
  return {scale_by_power(v.low, n.low), scale_by_power(v.high, n.high)};
}
inline float sum(Vec a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  __m128 t = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  t = _mm_add_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_add_ss(t, _mm_shuffle_ps(t, t, 1)));
}
inline float max_lane(Vec a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  __m128 t = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  t = _mm_max_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_max_ss(t, _mm_shuffle_ps(t, t, 1)));
}

}  // namespace lockstep::LOCKSTEP_ISA
