// SPDX-License-Identifier: Apache-2.0
// Formats of linear (linear.h) in which each half of a panel has one vector of products per unit,
// which is added to one sum. These are all formats except those for weights with groups. A Unit has
// kLayout, Activation, Guard, kTileRows, kAheadRows, lay_out (4 bytes per row), Weight (the element
// type of its loads), Factor and Sum (vectors), splat(x) and multiply(weight, x, sum).
#pragma once

#include "worker/kernels/cpu/linear/linear.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <typename Sum>
struct ElementOf {
  using Type = float;
};
template <>
struct ElementOf<Sums> {
  using Type = int32_t;
};

template <typename Unit>
struct Units : Unit {
  template <int kRows>
  static void run(const TileWork& work) {
    using Factor = typename Unit::Factor;
    using Sum = typename Unit::Sum;
    constexpr int64_t kBytes = Unit::kLayout.bytes;
    auto* sums = reinterpret_cast<typename ElementOf<Sum>::Type*>(work.sums);
    const std::byte* x = work.x;
    const Ahead ahead = work.ahead;
    Sum left[kRows], right[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      left[r] = Sum::load(sums + r * kPanel);
      right[r] = Sum::load(sums + r * kPanel + Vec::kLanes);
    }
    const std::byte* panel = work.panel;
    for (int64_t unit = 0; unit < work.units; ++unit, panel += kBytes) {
      const auto* weights = reinterpret_cast<const typename Unit::Weight*>(panel);
      ahead.prefetch(panel);
      const Factor w0 = Factor::load(weights);
      const Factor w1 = Factor::load(weights + kBytes / 2 / sizeof(typename Unit::Weight));
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Factor value = Unit::splat(x + (unit * kRows + r) * 4);
        left[r] = Unit::multiply(w0, value, left[r]);
        right[r] = Unit::multiply(w1, value, right[r]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      left[r].store(sums + r * kPanel);
      right[r].store(sums + r * kPanel + Vec::kLanes);
    }
  }
};

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
