// SPDX-License-Identifier: Apache-2.0
// float32 rows times weights in codes. For int8 weights the codes of x are stored as int16 in the
// order of elements 0, 2, 1, 3 of every four: then one instruction adds two products of 16-bit
// numbers, in 32 bits. A product with an int4 weight is at most 15 * 127, so eight sums of two such
// products fit 16 bits together.
#pragma once

#include "worker/kernels/cpu/linear/linear_codes.h"
#include "worker/kernels/cpu/linear/quarters_avx2.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <DType kWeight>
struct NarrowCodes : CodeRows<kWeight, widened_layout(kWeight).depth> {
  static constexpr PanelLayout kLayout = widened_layout(kWeight);
  static constexpr int64_t kDepth = kLayout.depth;
  using Rows = CodeRows<kWeight, kDepth>;
  using Guard = KeepDenormals;
  using Rows::kKind, Rows::kWhole, Rows::kScaleBytes, Rows::kPower;
  static constexpr int64_t kSteps = kDepth * kKind.bits / 32;  // Steps have 128 bytes each.
  static constexpr int64_t kCodeBytes = kKind.bits == 8 ? 2 : 1;
  static constexpr int64_t kRowCodes = kDepth * kCodeBytes;  // In bytes.
  static constexpr int kTileRows = 8;
  static constexpr int64_t kAheadRows = 1;
  static_assert(kKind.bits == 8 || kSteps <= 4);

  template <typename X>
  static void lay_out(const X* x, int64_t count, std::byte* to, int64_t r, int64_t rows,
                      RowValue& value) {
    if constexpr (kCodeBytes == 1) return Rows::lay_out(x, count, to, r, rows, value);
    int8_t codes[kDepth];
    Rows::round(x, count, codes, to + rows * kRowCodes, r, rows, value);
    constexpr int kSwapped = 0b11'01'10'00;  // Elements 0, 2, 1, 3.
    for (int64_t i = 0; i < kDepth; i += 16) {
      const auto bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i));
      const __m256i words = _mm256_shufflelo_epi16(_mm256_cvtepi8_epi16(bytes), kSwapped);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + r * kRowCodes + 2 * i),
                          _mm256_shufflehi_epi16(words, kSwapped));
    }
  }

  // Adds the products of a group with quarter `q` of the panel to `sums`.
  template <int kRows>
  [[gnu::always_inline]] static void multiply(const std::byte* codes, const std::byte* weights,
                                              const Ahead& ahead, __m256i* sums) {
    if constexpr (kKind.bits == 8) {
#pragma GCC unroll 2
      for (int64_t step = 0; step < kSteps; ++step, weights += 128, codes += 8) {
        ahead.prefetch(weights);
        const __m256i four = load_bits(weights);
        const __m256i even = _mm256_and_si256(four, _mm256_set1_epi16(0xff));
        const __m256i odd = _mm256_srli_epi16(four, 8);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const std::byte* row = codes + r * kRowCodes;
          const __m256i first = _mm256_madd_epi16(even, splat_bits(row));
          const __m256i second = _mm256_madd_epi16(odd, splat_bits(row + 4));
          sums[r] = _mm256_add_epi32(sums[r], _mm256_add_epi32(first, second));
        }
      }
    } else {
      const __m256i mask = _mm256_set1_epi8(0x0f);
      __m256i words[kRows];
#pragma GCC unroll 4
      for (int64_t step = 0; step < kSteps; ++step, weights += 128, codes += 4) {
        ahead.prefetch(weights);
        const __m256i both = load_bits(weights);
        const __m256i low = _mm256_and_si256(both, mask);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const std::byte* row = codes + r * kRowCodes;
          const __m256i first = _mm256_maddubs_epi16(low, splat_bits(row));
          const __m256i second = _mm256_maddubs_epi16(high, splat_bits(row + kDepth / 2));
          words[r] =
              _mm256_add_epi16(step == 0 ? first : _mm256_add_epi16(words[r], first), second);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(words[r], _mm256_set1_epi16(1)));
      }
    }
  }

  // A panel's bfloat16 scales or minima for quarter `q`; see scale_index.
  [[gnu::always_inline]] static __m256 scales_of(const std::byte* scales, int q) {
    const __m256i pairs = load_bits(scales + q % 2 * 32);
    return q < 2 ? later_of(pairs) : earlier_of(pairs);
  }

  template <int kRows>
  [[gnu::always_inline]] static void scale(const std::byte* numbers, const std::byte* panel, int q,
                                           const __m256i* sums, float* to) {
    const __m256 scales = scales_of(panel, q);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const std::byte* number = numbers + 4 * r;
      const __m256 factor = kPower ? _mm256_castsi256_ps(_mm256_add_epi32(
                                         _mm256_castps_si256(scales), splat_bits(number)))
                                   : _mm256_mul_ps(scales, splat_float(number));
      __m256 sum = _mm256_loadu_ps(to + r * kPanel);
      sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[r]), factor, sum);
      if constexpr (kKind.minimum) {
        sum = _mm256_fmadd_ps(scales_of(panel + kPanelScales, q),
                              splat_float(number + 2 * 4 * kRows), sum);
      }
      _mm256_storeu_ps(to + r * kPanel, sum);
    }
  }

  template <int kRows>
  static void run(const TileWork& work) {
    const std::byte *x = work.x, *panel = work.panel;
    for (int64_t unit = 0; unit < work.units; ++unit) {
      const std::byte* numbers = x + kRows * kRowCodes;
      if (!kWhole) work.ahead.prefetch(panel);
      for (int q = 0; q < kQuarters; ++q) {
        float* to = work.sums + q * kQuarter;
        __m256i sums[kRows];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          sums[r] = kWhole ? load_bits(reinterpret_cast<const std::byte*>(to + r * kPanel))
                           : splat_bits(numbers + 4 * (kRows + r));
        }
        multiply<kRows>(x, panel + kScaleBytes + 32 * q, q == 0 ? work.ahead : Ahead{}, sums);
        if constexpr (kWhole) {
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + r * kPanel), sums[r]);
          }
        } else {
          scale<kRows>(numbers, panel, q, sums, to);
        }
      }
      x += kRows * kLayout.row_bytes;
      panel += kLayout.bytes;
    }
  }
};

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
