// SPDX-License-Identifier: Apache-2.0
// Common code for kernels of rows times quantized weights: how a row is rounded (unless
// round_groups has done it), and how sums are scaled. A row is rounded to int8 in the weight's
// groups, so that the products of a group add up exactly in 32 bits, in any order; then, group by
// group in order,
//   sum = fma(dot, weight scale * x scale, sum), and with minima fma(minimum, x scale * codes, sum)
// where codes is the sum of the group's codes of x. The x scale is the group's largest magnitude /
// 127. For int4 it is a power of two, whose exponent is added to that of the weight's scale. q8c
// has one scale for all of a row (K <= 131072, or 32 bits overflow), and its sums are scaled once,
// at the end.
// A row with an element that is not finite, or for int4 above 127 * 2^62, gives NaN.
// Stored weights are unsigned: 128 or 8 is added to their codes. A group's sum starts at the
// negative of what these offsets add to it.
#pragma once

#include "worker/kernels/cpu/linear/linear.h"
#include "worker/kernels/cpu/pack/quantize.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

// kDepth: elements of K in a unit of the format.
template <DType kWeight, int64_t kDepth>
struct CodeRows {
  using Activation = float;
  static constexpr Quantization kKind = *quantization(kWeight);
  static constexpr bool kWhole = kKind.group == 0, kPower = kKind.bits == 4;
  static constexpr int32_t kZero = kKind.bits == 8 ? 128 : kKind.minimum ? 0 : 8;
  static constexpr int64_t kScaleBytes = kWhole ? 0 : kPanelScales * (kKind.minimum ? 2 : 1);
  // A row's 4-byte numbers in a group, beside its codes: its scale, or the scale's exponent; the
  // initial value of the sum; the factor of the minimum.
  static constexpr int64_t kNumbers = kWhole ? 0 : kKind.minimum ? 3 : 2;

  static constexpr DType kRounded = rounded_rows(kWeight);
  static_assert(kRounded == DType::kNone || kDepth == kRoundedGroup);

  static RowValue row_value(const RoundedGroup*, int64_t) { return {}; }
  static RowValue row_value(const float* x, int64_t cols) {
    if constexpr (!kWhole) return {};
    const Scale scale = choose_scale(largest_magnitude(x, cols));
    return {.value = scale.valid ? scale.scale : __builtin_nanf(""), .inverse = scale.inverse};
  }

  // Lays out row `r` of a unit. A unit has the codes of all rows, [rows][kDepth], then each of the
  // numbers for all rows.
  template <typename X>
  static void lay_out(const X* x, int64_t count, std::byte* to, int64_t r, int64_t rows,
                      RowValue& value) {
    auto* codes = reinterpret_cast<int8_t*>(to + r * kDepth);
    round(x, count, codes, to + rows * kDepth, r, rows, value);
  }

  // Rounds a row's next unit to codes, and puts its numbers among those of all rows.
  [[gnu::always_inline]] static void round(const float* x, int64_t count, int8_t* codes,
                                           std::byte* numbers, int64_t r, int64_t rows,
                                           RowValue& value) {
    const int64_t n = min(count, kDepth);
    Scale scale;
    if constexpr (kWhole) {
      scale = {.inverse = value.inverse, .valid = value.value == value.value};
    } else {
      const int32_t largest = largest_magnitude(x, n);
      scale = kPower ? choose_power(largest) : choose_scale(largest);
      if (!scale.valid) value.value = __builtin_nanf("");
    }
    put_numbers(scale, round_codes<kDepth>(x, n, scale, codes), numbers, r, rows, value);
  }

  // The same for a group that is already rounded.
  [[gnu::always_inline]] static void round(const RoundedGroup* x, int64_t, int8_t* codes,
                                           std::byte* numbers, int64_t r, int64_t rows,
                                           RowValue& value) {
    Scale scale;
    if (x->scale == x->scale) {
      scale = {.scale = x->scale, .power = kPower ? power_of(x->scale) : 0};
    } else {
      value.value = __builtin_nanf("");
    }
    __builtin_memcpy(codes, x->codes, kRoundedGroup);
    put_numbers(scale, sum_of_codes(x->codes), numbers, r, rows, value);
  }

  // `total`: the sum of the group's codes.
  [[gnu::always_inline]] static void put_numbers(const Scale& scale, int32_t total,
                                                 std::byte* numbers, int64_t r, int64_t rows,
                                                 RowValue& value) {
    const auto put = [&](int64_t index, const void* four) {
      __builtin_memcpy(numbers + (index * rows + r) * 4, four, 4);
    };
    const int32_t start = -kZero * total, power = scale.power * (1 << 23);
    const float offset = scale.scale * static_cast<float>(total);
    if constexpr (kWhole) {
      value.start += start;
    } else {
      put(0, kPower ? static_cast<const void*>(&power) : &scale.scale);
      put(1, &start);
      if (kKind.minimum) put(2, &offset);
    }
  }

  // The scales and minima of a group, for the left and the right half of a panel.
  struct Scales {
    Vec left, right, left_minima, right_minima;
    explicit Scales(const std::byte* panel) {
      const Pairs scales = Pairs::load(reinterpret_cast<const uint16_t*>(panel));
      left = even_of(scales), right = odd_of(scales);
      if constexpr (kKind.minimum) {
        const Pairs minima = Pairs::load(reinterpret_cast<const uint16_t*>(panel + kPanelScales));
        left_minima = even_of(minima), right_minima = odd_of(minima);
      }
    }
  };

  // Adds a group's dot products of one row, times its scales, to the row's sums. `numbers` has the
  // row's numbers of that group, one every `stride` * 4 bytes.
  [[gnu::always_inline]] static void scale_row(const Scales& scales, const std::byte* numbers,
                                               int64_t stride, const Sums& left, const Sums& right,
                                               Vec& sum0, Vec& sum1) {
    const auto* integers = reinterpret_cast<const int32_t*>(numbers);
    const auto* floats = reinterpret_cast<const float*>(numbers);
    const Vec t0 = kPower ? times_power(scales.left, *integers) : scales.left * Vec::splat(*floats);
    const Vec t1 =
        kPower ? times_power(scales.right, *integers) : scales.right * Vec::splat(*floats);
    sum0 = fma(to_float(left), t0, sum0);
    sum1 = fma(to_float(right), t1, sum1);
    if constexpr (kKind.minimum) {
      const Vec offset = Vec::splat(floats[2 * stride]);
      sum0 = fma(scales.left_minima, offset, sum0);
      sum1 = fma(scales.right_minima, offset, sum1);
    }
  }

  static void finish(Vec& left, Vec& right, const std::byte* header, const RowValue& value) {
    const Vec factor = Vec::splat(value.value);
    if constexpr (kWhole) {
      const Pairs scales = Pairs::load(reinterpret_cast<const uint16_t*>(header));
      left = to_float(as_sums(left)) * (even_of(scales) * factor);
      right = to_float(as_sums(right)) * (odd_of(scales) * factor);
    } else {
      left = left + factor;  // 0 or NaN.
      right = right + factor;
    }
  }
};

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
