// SPDX-License-Identifier: Apache-2.0
// bfloat16 times bfloat16 in sixteen registers, with the bits of dot_pairs.
#pragma once

#include "worker/kernels/cpu/linear/quarters_avx2.h"
#include "worker/kernels/cpu/linear/widened_rows.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

struct NarrowBFloats : WidenedRows {
  static constexpr int kTileRows = 6;
  static constexpr int64_t kAheadRows = 1;
  // First the columns of a panel's first half use this many units of x. Then the columns of the
  // second half use the same units, which are still in L1.
  static constexpr int64_t kBlockUnits = 64;

  template <int kRows>
  static void run(const TileWork& work) {
    if constexpr (kRows <= 3) {
      columns<kRows, kQuarters>(work, 0, work.units, 0);
    } else {
      for (int64_t begin = 0; begin < work.units; begin += kBlockUnits) {
        const int64_t end = min(begin + kBlockUnits, work.units);
        columns<kRows, 2>(work, begin, end, 0);
        columns<kRows, 2>(work, begin, end, 2);
      }
    }
  }

  // Processes units [begin, end) of kCount quarters of the panel, from `first` on.
  template <int kRows, int kCount>
  static void columns(const TileWork& work, int64_t begin, int64_t end, int first) {
    float* to = work.sums + first * kQuarter;
    __m256 sums[kRows][kCount];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int q = 0; q < kCount; ++q) sums[r][q] = _mm256_loadu_ps(to + r * kPanel + q * kQuarter);
    }
    const std::byte *x = work.x + begin * kRows * 8, *panel = work.panel + begin * kLayout.bytes;
    const Ahead ahead = first == 0 ? work.ahead : Ahead{};
    for (int64_t unit = begin; unit < end; ++unit, x += kRows * 8, panel += kLayout.bytes) {
      ahead.prefetch(panel);
      const auto add = [&]<bool kEarlier>() {
        const std::byte* from = panel + 32 * first;
        asm("" : "+r"(from));  // Two loads: a copy would cost a register of sums.
        __m256 weights[kCount];
#pragma GCC unroll 4
        for (int q = 0; q < kCount; ++q) {
          const __m256i pairs = load_bits(from + 32 * q);
          weights[q] = kEarlier ? earlier_of(pairs) : later_of(pairs);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const __m256 value = splat_float(x + 8 * r + (kEarlier ? 0 : 4));
#pragma GCC unroll 4
          for (int q = 0; q < kCount; ++q) {
            sums[r][q] = _mm256_fmadd_ps(weights[q], value, sums[r][q]);
          }
        }
      };
      add.template operator()<true>();
      add.template operator()<false>();
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int q = 0; q < kCount; ++q) _mm256_storeu_ps(to + r * kPanel + q * kQuarter, sums[r][q]);
    }
  }
};

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
