// SPDX-License-Identifier: Apache-2.0
// transpose_columns() in ymm registers. The two halves of a register are loaded from two rows of
// keys. Among the values, the numbers of these rows are half a register apart. So the same shuffles
// transpose both halves, and no shuffle moves a number from one half to the other.
#pragma once

#include <immintrin.h>

#include "worker/kernels/cpu/pages/kv_format.h"

namespace lockstep::LOCKSTEP_ISA {

[[gnu::always_inline]] inline __m256i load_halves(const void* low, const void* high) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(low))),
      _mm_loadu_si128(static_cast<const __m128i*>(high)), 1);
}

// Transposes four rows of four words in each half, and stores row i of the result at to + i * step.
template <typename T>
[[gnu::always_inline]] inline void store_transposed(__m256i a, __m256i b, __m256i c, __m256i d,
                                                    T* to, int64_t step) {
  const __m256i first_ab = _mm256_unpacklo_epi32(a, b), last_ab = _mm256_unpackhi_epi32(a, b);
  const __m256i first_cd = _mm256_unpacklo_epi32(c, d), last_cd = _mm256_unpackhi_epi32(c, d);
  const auto store = [&](int64_t i, __m256i row) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * step), row);
  };
  store(0, _mm256_unpacklo_epi64(first_ab, first_cd));
  store(1, _mm256_unpackhi_epi64(first_ab, first_cd));
  store(2, _mm256_unpacklo_epi64(last_ab, last_cd));
  store(3, _mm256_unpackhi_epi64(last_ab, last_cd));
}

template <typename F>
requires(F::kPack == 1) void transpose_columns(const float* keys, float* values, int64_t stride) {
  for (int64_t slot = 0; slot < kChunk; slot += 4) {
#pragma GCC unroll 2
    for (int64_t column = 0; column < Vec::kLanes; column += 8) {
      const auto rows = [&](int64_t i) {
        const float* from = keys + (column + i) * kChunk + slot;
        return load_halves(from, from + 4 * kChunk);
      };
      store_transposed(rows(0), rows(1), rows(2), rows(3), values + slot * stride + column, stride);
    }
  }
}

// Every four numbers of a row of keys are two slots of two columns. Swaps the middle two, so that
// the two slots of a column are neighbours, as they are among values. Then transposes words of two
// numbers.
template <typename F>
requires(F::kPack == 2 && sizeof(typename F::Element) ==
                              2) void transpose_columns(const uint16_t* keys, uint16_t* values,
                                                        int64_t stride) {
  const __m256i swap = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  for (int64_t slot = 0; slot < kChunk; slot += 4) {
#pragma GCC unroll 2
    for (int64_t column = 0; column < Vec::kLanes; column += 8) {
      const auto rows = [&](int64_t i) {
        const uint16_t* from = keys + (column + 2 * i) * kChunk + slot * 2;
        return _mm256_shuffle_epi8(load_halves(from, from + 4 * kChunk), swap);
      };
      const auto store = [&](int64_t i, __m256i row) {
        uint16_t* to = values + (slot + 2 * i) * stride + column * 2;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), row);
      };
      const __m256i a = rows(0), b = rows(1);
      store(0, _mm256_unpacklo_epi64(a, b));
      store(1, _mm256_unpackhi_epi64(a, b));
    }
  }
}
template <typename F>
requires(F::kPack == 2 &&
         sizeof(typename F::Element) == 1) void transpose_columns(const int8_t* keys,
                                                                  int8_t* values, int64_t stride) {
  const __m256i swap = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
#pragma GCC unroll 2
  for (int64_t slot = 0; slot < kChunk; slot += 8) {
    const auto rows = [&](int64_t i) {
      const int8_t* from = keys + 2 * i * kChunk + slot * 2;
      return _mm256_shuffle_epi8(load_halves(from, from + 8 * kChunk), swap);
    };
    store_transposed(rows(0), rows(1), rows(2), rows(3), values + slot * stride, 2 * stride);
  }
}

}  // namespace lockstep::LOCKSTEP_ISA
