// SPDX-License-Identifier: Apache-2.0
// bfloat16 times bfloat16 by float32 instructions, with the bits of dot_pairs: x is widened when it
// is laid out, and weights are widened once for all rows of a tile.
#pragma once

#include "worker/kernels/cpu/linear/widened_rows.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

struct WideBFloats : WidenedRows {
  static constexpr int kTileRows = kTileRowsWidened;
  static constexpr int64_t kAheadRows = 5;

  template <int kRows>
  static void run(const TileWork& work) {
    Vec left[kRows], right[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      left[r] = Vec::load(work.sums + r * kPanel);
      right[r] = Vec::load(work.sums + r * kPanel + Vec::kLanes);
    }
    const std::byte *x = work.x, *panel = work.panel;
    const Ahead ahead = work.ahead;
    for (int64_t unit = 0; unit < work.units; ++unit, panel += kLayout.bytes) {
      ahead.prefetch(panel);
      const auto* weights = reinterpret_cast<const uint16_t*>(panel);
      const Pairs w0 = Pairs::load(weights), w1 = Pairs::load(weights + 2 * Vec::kLanes);
      add<kRows>(odd_of(w0), odd_of(w1), x, left, right);
      add<kRows>(even_of(w0), even_of(w1), x + 4, left, right);
      x += kRows * kLayout.row_bytes;
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      left[r].store(work.sums + r * kPanel);
      right[r].store(work.sums + r * kPanel + Vec::kLanes);
    }
  }

  // Adds one element of K. x has one number for each row, kLayout.row_bytes apart.
  template <int kRows>
  [[gnu::always_inline]] static void add(Vec w0, Vec w1, const std::byte* x, Vec (&left)[kRows],
                                         Vec (&right)[kRows]) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vec value = Vec::splat(*reinterpret_cast<const float*>(x + r * kLayout.row_bytes));
      left[r] = fma(w0, value, left[r]);
      right[r] = fma(w1, value, right[r]);
    }
  }
};

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
