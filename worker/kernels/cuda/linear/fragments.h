// SPDX-License-Identifier: Apache-2.0
// The layout of the weights of linear_mma.cu. Weights are stored in the order in which tensor cores
// take them: a lane reads 16 bytes at a time, and a warp reads one contiguous piece of memory. 16
// rows are a stripe, and 64 columns of a stripe are a unit: 2 KiB of 16-bit numbers. A stripe or
// unit that is not whole is filled up with zeros. A unit is four steps of mma.m16n8k16. In
// step 2j + s, lane 4g + t has the four columns from 32j + 8t + 4s on, of rows g and g + 8. So for
// steps 2j and 2j + 1 together this lane takes eight neighbouring numbers of x. If weights are in
// pairs (gated_linear), rows 2g and 2g + 1 of a stripe are stored as its rows g and g + 8, so that
// a lane has both sums of a pair.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep::device {

inline constexpr int64_t kStripeRows = 16;
inline constexpr int64_t kUnitDepth = 64;
// The canonical order of sums: K is cut into slices. The products of a slice are added to zero in
// the order of its steps; then the sums of the slices are added in order. No bit depends on which
// block computes a slice, or on what else that block computes.
inline constexpr int64_t kSliceUnits = 16;

constexpr int64_t stripes_of(int64_t rows) { return (rows + kStripeRows - 1) / kStripeRows; }
constexpr int64_t units_of(int64_t depth) { return (depth + kUnitDepth - 1) / kUnitDepth; }
constexpr int64_t slices_of(int64_t depth) {
  return (units_of(depth) + kSliceUnits - 1) / kSliceUnits;
}

// The place of a number of a unit: its lane, and its number in the lane's part of A.
struct FragmentPlace {
  int step;
  int lane;
  int word;
  int half;
};
constexpr FragmentPlace fragment_place(int64_t row, int64_t col) {
  const auto r = static_cast<int>(row), k = static_cast<int>(col);
  return {.step = k / 32 * 2 + k % 8 / 4,
          .lane = r % 8 * 4 + k % 32 / 8,
          .word = r / 8 + k % 4 / 2 * 2,
          .half = k % 2};
}

// A unit stores its numbers or codes, then its scales, then its minima. Scales and minima have the
// order [row % 8][row / 8][group of 32]. kQ8C has one scale per row instead, before the stripe's
// first unit.
template <DType kWeight>
struct FragmentBytes {
  static constexpr Quantization kKind = quantization(kWeight).value_or(Quantization{.bits = 16});
  static constexpr int64_t kCodes = kStripeRows * kUnitDepth * kKind.bits / 8;
  static constexpr int64_t kScales = kKind.group == 0 ? 0 : kStripeRows * 4;
  static constexpr int64_t kUnit = kCodes + kScales * (kKind.minimum ? 2 : 1);
  static constexpr int64_t kHead = kKind.bits == 8 && kKind.group == 0 ? kStripeRows * 2 : 0;
  static_assert(kUnit % 16 == 0 && kHead % 16 == 0);
  static_assert(kKind.group == 0 || kKind.group * 2 == kUnitDepth);

  static constexpr int64_t stripe(int64_t depth) { return kHead + units_of(depth) * kUnit; }
};

constexpr int64_t scale_place(int64_t row, int64_t group) {
  return row % 8 * 4 + row / 8 * 2 + group;
}

// A PackedBytesFn and a PackFn for each type of weight.
template <DType kWeight>
int64_t fragment_bytes(int64_t rows, int64_t cols);
template <DType kWeight>
void pack_fragments(const PackArgs& args);
template <DType kWeight>
void pack_paired_fragments(const PackArgs& args);

// Rows of x are read eight numbers at a time, from multiples of 16 bytes. Rows of float32, and rows
// that are not aligned to 16 bytes, are copied into scratch as rows of this many 16-bit numbers.
constexpr int64_t copied_stride(int64_t depth) { return (depth + 7) / 8 * 8; }
// A ScratchBytesFn. If rows are parts of wider rows, it counts a copy of them, although a call
// whose rows are aligned makes no copy.
int64_t mma_scratch_bytes(const KernelArgs& largest, int threads);
// The same for wgmma, which copies x as whole units.
int64_t wgmma_scratch_bytes(const KernelArgs& largest, int threads);

}  // namespace lockstep::device
