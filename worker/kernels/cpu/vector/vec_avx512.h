// SPDX-License-Identifier: Apache-2.0
// Vec as one zmm register: AVX-512 F, BW, VL, DQ. In the namespace of each ISA that has them.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {

struct Vec {
  static constexpr int64_t kLanes = 16;
  __m512 v;

  static __mmask16 first(int64_t n) {
    return static_cast<__mmask16>(n < kLanes ? (1u << n) - 1u : 0xffffu);
  }
  static __m512 widen(__m256i bf16) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
  }
  static Vec splat(float x) { return {_mm512_set1_ps(x)}; }
  static Vec zero() { return {_mm512_setzero_ps()}; }
  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec load(const float* p, int64_t n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
  static Vec load(const uint16_t* p) {
    return {widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static Vec load(const uint16_t* p, int64_t n) {
    return {widen(_mm256_maskz_loadu_epi16(first(n), p))};
  }
  static Vec load_twice(const float* p, int64_t n) {
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return {_mm512_permutexvar_ps(twice, load(p, n < 8 ? n : 8).v)};
  }
  static Vec load(const Half* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static Vec load(const Half* p, int64_t n) {
    return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p))};
  }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store(float* p, int64_t n) const { _mm512_mask_storeu_ps(p, first(n), v); }
  __m256i narrow() const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i upper = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(
        _mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40)));
  }
  void store(uint16_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow()); }
  void store(uint16_t* p, int64_t n) const { _mm256_mask_storeu_epi16(p, first(n), narrow()); }
};

inline constexpr int kTileRowsF32 = 8;
inline constexpr int kTileRowsCodes = 8;
inline constexpr int kTileRowsGroups = 6;
inline constexpr int kTileRowsBF16 = 8;
inline constexpr int kTileRowsWidened = 12;
inline constexpr int kTileQueries = 8;
inline constexpr int kTileSums = 16;

inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec sqrt(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
inline Vec swap_neighbours(Vec a) { return {_mm512_permute_ps(a.v, 0xb1)}; }
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec select_less(Vec a, Vec b, Vec yes, Vec no) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
inline Vec select_number(Vec a, Vec yes, Vec no) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_ORD_Q), no.v, yes.v)};
}
inline Vec round_even(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT)}; }
inline Vec scale_by_power(Vec v, Vec n) { return {_mm512_scalef_ps(v.v, n.v)}; }
inline float sum(Vec a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 t = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  t = _mm_add_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_add_ss(t, _mm_shuffle_ps(t, t, 1)));
}
inline float max_lane(Vec a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 t = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  t = _mm_max_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_max_ss(t, _mm_shuffle_ps(t, t, 1)));
}

}  // namespace lockstep::LOCKSTEP_ISA
