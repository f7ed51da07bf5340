// SPDX-License-Identifier: Apache-2.0
// float32 rows times quantized weights (linear_codes.h), a few rows by a panel at a time.
#include "worker/kernels/cpu/linear/expert_linear.h"
#include "worker/kernels/cpu/linear/linear_codes.h"
#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) == 1
#include "worker/kernels/cpu/linear/linear_codes_avx2.h"
#endif

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <DType kWeight>
struct Codes : CodeRows<kWeight, panel_layout(kWeight).depth> {
  static constexpr PanelLayout kLayout = panel_layout(kWeight);
  static constexpr int64_t kDepth = kLayout.depth;
  using Rows = CodeRows<kWeight, kDepth>;
  using Guard = KeepDenormals;
  using Rows::kKind, Rows::kWhole, Rows::kScaleBytes;
  static constexpr int64_t kSteps = kDepth * kKind.bits / 32;  // Steps have 128 bytes each.
  static constexpr int kTileRows = kWhole ? kTileRowsCodes : kTileRowsGroups;
  static constexpr int64_t kAheadRows = kKind.bits == 8 ? 5 : 3;

  template <int kRows>
  [[gnu::always_inline]] static void multiply(const Quads& w0, const Quads& w1,
                                              const std::byte* codes, Sums* left, Sums* right) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Quads value = Quads::splat(codes + r * kDepth);
      left[r] = dot_quads(w0, value, left[r]);
      right[r] = dot_quads(w1, value, right[r]);
    }
  }

  template <int kRows>
  [[gnu::always_inline]] static void scale(const std::byte* numbers, const std::byte* panel,
                                           const Sums* left, const Sums* right, Vec* sums) {
    const typename Rows::Scales scales(panel);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      Rows::scale_row(scales, numbers + 4 * r, kRows, left[r], right[r], sums[2 * r],
                      sums[2 * r + 1]);
    }
  }

  template <int kRows>
  static void run(const TileWork& work) {
    const std::byte *x = work.x, *panel = work.panel;
    const Ahead ahead = work.ahead;
    auto* whole = reinterpret_cast<int32_t*>(work.sums);
    Sums left[kRows], right[kRows];
    Vec sums[2 * kRows];
#pragma GCC unroll 16
    for (int i = 0; !kWhole && i < 2 * kRows; ++i) sums[i] = Vec::load(work.sums + i * Vec::kLanes);
#pragma GCC unroll 8
    for (int r = 0; kWhole && r < kRows; ++r) {
      left[r] = Sums::load(whole + r * kPanel);
      right[r] = Sums::load(whole + r * kPanel + Vec::kLanes);
    }
    for (int64_t unit = 0; unit < work.units; ++unit) {
      const std::byte *codes = x, *numbers = x + kRows * kDepth, *weights = panel + kScaleBytes;
      if (!kWhole) ahead.prefetch(panel);
#pragma GCC unroll 8
      for (int r = 0; !kWhole && r < kRows; ++r) {
        left[r] = right[r] = Sums::splat(reinterpret_cast<const int32_t*>(numbers)[kRows + r]);
      }
      for (int64_t step = 0; step < kSteps; ++step, codes += 4, weights += 128) {
        ahead.prefetch(weights);
        const Quads w0 = Quads::load(weights), w1 = Quads::load(weights + 64);
        if constexpr (kKind.bits == 8) {
          multiply<kRows>(w0, w1, codes, left, right);
        } else {
          multiply<kRows>(low_nibbles(w0), low_nibbles(w1), codes, left, right);
          multiply<kRows>(high_nibbles(w0), high_nibbles(w1), codes + kDepth / 2, left, right);
        }
      }
      if (!kWhole) scale<kRows>(numbers, panel, left, right, sums);
      x += kRows * kLayout.row_bytes;
      panel += kLayout.bytes;
    }
#pragma GCC unroll 16
    for (int i = 0; !kWhole && i < 2 * kRows; ++i) sums[i].store(work.sums + i * Vec::kLanes);
#pragma GCC unroll 8
    for (int r = 0; kWhole && r < kRows; ++r) {
      left[r].store(whole + r * kPanel);
      right[r].store(whole + r * kPanel + Vec::kLanes);
    }
  }
};

#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) == 1
template <DType kWeight>
using CodeFormat = NarrowCodes<kWeight>;
#else
template <DType kWeight>
using CodeFormat = Codes<kWeight>;
#endif

}  // namespace

template <DType kWeight>
const char* linear_quantized(const KernelArgs& args) {
  return linear<CodeFormat<kWeight>>(args);
}

template <DType kWeight>
const char* expert_linear_quantized(const KernelArgs& args) {
  return expert_linear<CodeFormat<kWeight>>(args);
}

#define LOCKSTEP_LINEAR_QUANTIZED(KIND)                                       \
  template const char* linear_quantized<DType::KIND>(const KernelArgs& args); \
  template const char* expert_linear_quantized<DType::KIND>(const KernelArgs& args);
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_LINEAR_QUANTIZED)
#undef LOCKSTEP_LINEAR_QUANTIZED

}  // namespace lockstep::LOCKSTEP_ISA
