// SPDX-License-Identifier: Apache-2.0
// bfloat16 rows by int4 weights, whose codes become bfloat16 within the loop: group by group in
// order, dot_pairs from 0 over the group, then sum = fma(scale, group's sum, sum), and with minima
// fma(minimum, sum of the group's x, sum). Denormals count as zero.
// The pairs of a group are those that the packed bytes (panels.h) give: of each step j over 8 codes
// (4j, 4j + 2), (4j + 1, 4j + 3), then the same of the group's second half; of a pair the second
// one is added first.
#include "worker/kernels/cpu/linear.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <DType kWeight>
struct Nibbles : PlainSums {
  using Activation = uint16_t;
  using Guard = FlushDenormals;
  static constexpr Quantization kKind = *quantization(kWeight);
  static constexpr PanelLayout kLayout = panel_layout(kWeight, DType::kBF16);
  static constexpr int64_t kGroup = kKind.group, kSteps = kGroup / 8;
  static constexpr int64_t kScaleBytes = kPanelScales * (kKind.minimum ? 2 : 1);
  static constexpr int64_t kHeaders = kKind.minimum ? 1 : 0;
  static constexpr int kTileRows = kGroup > 64 ? kTileRowsCodes : kTileRowsGroups;
  static constexpr int64_t kAheadRows = 3;

  static void lay_out(const uint16_t* x, int64_t count, std::byte* to, int64_t r, int64_t rows,
                      RowValue&) {
    uint16_t group[kGroup] = {};
    __builtin_memcpy(group, x, static_cast<size_t>(min(count, kGroup)) * sizeof(*x));
    if constexpr (kKind.minimum) {
      Vec lanes = Vec::zero();
      for (int64_t i = 0; i < kGroup; i += Vec::kLanes) lanes = lanes + Vec::load(group + i);
      const float total = sum(lanes);
      __builtin_memcpy(to + r * 4, &total, 4);
    }
    for (int64_t i = 0; i < kGroup / 2; ++i) {
      const int64_t k = i / 4 * 4 + i % 4 / 2 * (kGroup / 2) + i % 2;
      const uint16_t pair[2] = {group[k], group[k + 2]};
      __builtin_memcpy(to + ((kHeaders + i) * rows + r) * 4, pair, 4);
    }
  }

  // The pairs at bit kShift of every word by those of the rows.
  template <int kRows, int kShift>
  [[gnu::always_inline]] static void multiply(const NibbleTable& table, const Quads& w0,
                                              const Quads& w1, const std::byte* x, Vec* left,
                                              Vec* right) {
    const Pairs p0 = table.pairs<kShift>(w0), p1 = table.pairs<kShift>(w1);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Pairs value = Pairs::splat(reinterpret_cast<const uint16_t*>(x + 4 * r));
      left[r] = dot_pairs(p0, value, left[r]);
      right[r] = dot_pairs(p1, value, right[r]);
    }
  }

  template <int kRows>
  [[gnu::always_inline]] static void scale(const std::byte* x, const std::byte* panel,
                                           const Vec* left, const Vec* right, Vec* sums) {
    const auto* totals = reinterpret_cast<const float*>(x);
    const Pairs scales = Pairs::load(reinterpret_cast<const uint16_t*>(panel));
    const Vec s0 = even_of(scales), s1 = odd_of(scales);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      Vec &sum0 = sums[2 * r], &sum1 = sums[2 * r + 1];
      sum0 = fma(s0, left[r], sum0);
      sum1 = fma(s1, right[r], sum1);
      if constexpr (kKind.minimum) {
        const Pairs minima = Pairs::load(reinterpret_cast<const uint16_t*>(panel + kPanelScales));
        sum0 = fma(even_of(minima), Vec::splat(totals[r]), sum0);
        sum1 = fma(odd_of(minima), Vec::splat(totals[r]), sum1);
      }
    }
  }

  template <int kRows>
  static void run(const Pass& pass) {
    constexpr int64_t kPairBytes = kRows * 4;
    const NibbleTable table(kKind.minimum ? 0 : 8);
    const Ahead ahead = pass.ahead;
    const std::byte *x = pass.x, *panel = pass.panel;
    Vec sums[2 * kRows];
#pragma GCC unroll 16
    for (int i = 0; i < 2 * kRows; ++i) sums[i] = Vec::load(pass.sums + i * Vec::kLanes);
    for (int64_t unit = 0; unit < pass.units; ++unit) {
      Vec left[kRows], right[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) left[r] = right[r] = Vec::zero();
      ahead.prefetch(panel);
      const std::byte *pairs = x + kHeaders * kPairBytes, *weights = panel + kScaleBytes;
      for (int64_t step = 0; step < kSteps; ++step, pairs += 4 * kPairBytes, weights += 128) {
        ahead.prefetch(weights);
        const Quads w0 = Quads::load(weights), w1 = Quads::load(weights + 64);
        multiply<kRows, 0>(table, w0, w1, pairs, left, right);
        multiply<kRows, 8>(table, w0, w1, pairs + kPairBytes, left, right);
        multiply<kRows, 4>(table, w0, w1, pairs + 2 * kPairBytes, left, right);
        multiply<kRows, 12>(table, w0, w1, pairs + 3 * kPairBytes, left, right);
      }
      scale<kRows>(x, panel, left, right, sums);
      x += kRows * kLayout.row_bytes;
      panel += kLayout.bytes;
    }
#pragma GCC unroll 16
    for (int i = 0; i < 2 * kRows; ++i) sums[i].store(pass.sums + i * Vec::kLanes);
  }
};

}  // namespace

template <DType kWeight>
const char* linear_int4(const KernelArgs& args) {
  return linear<Nibbles<kWeight>>(args);
}

#define LOCKSTEP_LINEAR_INT4(KIND) \
  template const char* linear_int4<DType::KIND>(const KernelArgs& args);
LOCKSTEP_EACH_INT4(LOCKSTEP_LINEAR_INT4)
#undef LOCKSTEP_LINEAR_INT4

}  // namespace lockstep::LOCKSTEP_ISA
