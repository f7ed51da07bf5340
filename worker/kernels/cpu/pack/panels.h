// SPDX-License-Identifier: Apache-2.0
// How the operands of linear are stored; packers, kernels and sizes.cc share this.
// A matrix [N, K] is stored as panels. A panel has 32 columns of the product, which are 32 rows of
// the matrix: an optional header, then units of K in order. A unit holds, for 32 columns:
//   float32, float16  1 element of K, [32]
//   bfloat16          2 elements, [32][2], the later one first (see dot.h); odd K: the last is 0
//   quantized         a group: bfloat16 scales, then minima if the kind has them, each interleaved
//                     as columns 0, 16, 1, 17, ...; then codes as below. K is filled up to whole
//                     groups with codes that mean 0.
//     int8            [group / 4][32][4], code + 128
//     int4            [group / 8][32][4] bytes: the low half is the code of element k of the
//                     group's first half, the high one that of k + group / 2; code + 8, or the code
//                     itself (0 .. 15) if there are minima
//   q8c               32 elements, [8][32][4], code + 128; the scales are the panel's header
// Internal linkage, since files of every ISA include it.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep {
namespace {

struct PanelLayout {
  int64_t depth = 1;         // Elements of K in a unit.
  int64_t bytes = 0;         // Bytes of a unit of a panel.
  int64_t header_bytes = 0;  // Bytes before a panel's first unit.
  int64_t row_bytes = 0;     // Bytes of a row of x in a unit, as the kernel lays it out.

  [[gnu::always_inline]] constexpr int64_t units(int64_t cols) const {
    return (cols + depth - 1) / depth;
  }
  [[gnu::always_inline]] constexpr int64_t panel_bytes(int64_t cols) const {
    return header_bytes + units(cols) * bytes;
  }
};

constexpr int64_t kPanelScales = kPackRows * 2;  // In bytes.

// A row of x has, in a unit, the group's int8 codes, its scale, the initial value of its sum and,
// if there are minima, their factor.
[[gnu::always_inline]] constexpr PanelLayout quantized_layout(const Quantization& kind) {
  if (kind.group == 0) return {32, 32 * kPackRows, kPanelScales, 32};
  const int64_t values = kind.minimum ? 2 : 1;
  return {kind.group, values * kPanelScales + kPackRows * kind.group * kind.bits / 8, 0,
          kind.group + 4 * (1 + values)};
}

[[gnu::always_inline]] constexpr PanelLayout panel_layout(DType weight) {
  if (const auto kind = quantization(weight)) return quantized_layout(*kind);
  if (weight == DType::kBF16) return {2, 4 * kPackRows, 0, 4};
  return {1, dtype_bytes(weight) * kPackRows, 0, 4};
}

// The layout for kernels that widen x when they lay it out: bfloat16 to float32 (widened_rows.h),
// and codes to int16 (linear_codes_avx2.h).
[[gnu::always_inline]] constexpr PanelLayout widened_layout(DType weight) {
  PanelLayout layout = panel_layout(weight);
  const auto kind = quantization(weight);
  if (kind && kind->bits == 8) layout.row_bytes += layout.depth;
  if (weight == DType::kBF16) layout.row_bytes *= 2;
  return layout;
}

// The layout for kernels with tile instructions: units that have no scales between them are merged,
// so that a merged unit has 64 bytes of a row of x.
[[gnu::always_inline]] constexpr PanelLayout tile_layout(DType weight) {
  const PanelLayout layout = panel_layout(weight);
  const auto kind = quantization(weight);
  if (kind && kind->group != 0) return layout;
  const int64_t merged = 64 / layout.row_bytes;
  return {layout.depth * merged, layout.bytes * merged, layout.header_bytes, 64};
}

// The index of column n of a panel among its interleaved scales.
[[maybe_unused, gnu::always_inline]] constexpr int64_t scale_index(int64_t n) {
  return n % 16 * 2 + n / 16;
}

// For int4 weights the exponent of a row's scale is added to that of a weight's scale. Both have
// limits within which the result is a normal number. Weight scales below 2^-66 count as zero;
// weight scales above 2^66 count as the largest number below 2^66. Scales of activations are 2^-60
// to 2^62.
constexpr int kMinPower = -60, kMaxPower = 62;
constexpr int kMinScale = -66, kMaxScale = 66;

}  // namespace
}  // namespace lockstep
