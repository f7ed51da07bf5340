// SPDX-License-Identifier: Apache-2.0
// float32 rows by quantized weights. A row is rounded to int8 in the weight's groups, so that the
// products of a group add up exactly in 32 bits, in whatever order; then, group by group in order,
//   sum = fma(dot, weight scale * x scale, sum), and with minima fma(minimum, x scale * codes, sum)
// where codes is the sum of the group's codes of x. x scale is largest / 127, or for int4 a power
// of two, which is added to the exponent of the weight's scale. q8c has one scale for all of a row
// (of K <= 131072, or 32 bits overflow) and is scaled once, at the end.
// A row with an element that is not finite, or for int4 above 127 * 2^62, gives NaN.
// Weights are unsigned here, +128 or +8: what that adds is where the sum of a group starts from.
#include "worker/kernels/cpu/linear.h"
#include "worker/kernels/cpu/quantize.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <DType kWeight>
struct Codes {
  using Activation = float;
  using Guard = KeepDenormals;
  static constexpr Quantization kKind = *quantization(kWeight);
  static constexpr PanelLayout kLayout = panel_layout(kWeight, DType::kF32);
  static constexpr bool kWhole = kKind.group == 0, kPower = kKind.bits == 4;
  static constexpr int32_t kZero = kKind.bits == 8 ? 128 : kKind.minimum ? 0 : 8;
  static constexpr int64_t kScaleBytes = kWhole ? 0 : kPanelScales * (kKind.minimum ? 2 : 1);
  static constexpr int64_t kSteps = kLayout.depth * kKind.bits / 32;  // Of 128 bytes.
  static constexpr int64_t kHeaders = kWhole ? 0 : kKind.minimum ? 3 : 2;
  static constexpr int kTileRows = kTileRowsCodes;
  static constexpr int64_t kAheadRows = kKind.bits == 8 ? 5 : 3;

  static RowValue row_value(const float* x, int64_t cols) {
    if constexpr (!kWhole) return {};
    const Scale scale = choose_scale(largest_magnitude(x, cols));
    return {.value = scale.valid ? scale.scale : __builtin_nanf(""), .inverse = scale.inverse};
  }

  static void lay_out(const float* x, int64_t count, std::byte* to, int64_t r, int64_t rows,
                      RowValue& value) {
    const int64_t n = least(count, kLayout.depth);
    Scale scale;
    if constexpr (kWhole) {
      scale = {.inverse = value.inverse, .valid = value.value == value.value};
    } else {
      const int32_t largest = largest_magnitude(x, n);
      scale = kPower ? choose_power(largest) : choose_scale(largest);
      if (!scale.valid) value.value = __builtin_nanf("");
    }
    int8_t codes[kLayout.depth];
    const int32_t total = round_codes<kLayout.depth>(x, n, scale, codes);
    const auto put = [&](int64_t index, const void* four) {
      __builtin_memcpy(to + (index * rows + r) * 4, four, 4);
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
    for (int64_t i = 0; i < kLayout.depth / 4; ++i) put(kHeaders + i, codes + 4 * i);
  }

  template <int kRows>
  [[gnu::always_inline]] static void multiply(const Quads& w0, const Quads& w1,
                                              const std::byte* codes, Sums* left, Sums* right) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Quads value = Quads::splat(codes + 4 * r);
      left[r] = dot_quads(w0, value, left[r]);
      right[r] = dot_quads(w1, value, right[r]);
    }
  }

  // A group's dot products times its scales, added to the rows' sums.
  template <int kRows>
  [[gnu::always_inline]] static void scale(const std::byte* x, const std::byte* panel,
                                           const Sums* left, const Sums* right, float* sums) {
    const auto* header = reinterpret_cast<const int32_t*>(x);
    const auto* numbers = reinterpret_cast<const float*>(x);
    const Pairs scales = Pairs::load(reinterpret_cast<const uint16_t*>(panel));
    const Vec s0 = even_of(scales), s1 = odd_of(scales);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec t0 = kPower ? times_power(s0, header[r]) : s0 * Vec::splat(numbers[r]);
      const Vec t1 = kPower ? times_power(s1, header[r]) : s1 * Vec::splat(numbers[r]);
      float* sum = sums + r * kPanel;
      Vec sum0 = fma(to_float(left[r]), t0, Vec::load(sum));
      Vec sum1 = fma(to_float(right[r]), t1, Vec::load(sum + Vec::kLanes));
      if constexpr (kKind.minimum) {
        const Pairs minima = Pairs::load(reinterpret_cast<const uint16_t*>(panel + kPanelScales));
        const Vec offset = Vec::splat(numbers[2 * kRows + r]);
        sum0 = fma(even_of(minima), offset, sum0);
        sum1 = fma(odd_of(minima), offset, sum1);
      }
      sum0.store(sum);
      sum1.store(sum + Vec::kLanes);
    }
  }

  template <int kRows>
  static void run(const Pass& pass) {
    constexpr int64_t kHalf = kSteps * kRows * 4;  // Bytes of x that the low nibbles take.
    const std::byte *x = pass.x, *panel = pass.panel;
    auto* whole = reinterpret_cast<int32_t*>(pass.sums);
    Sums left[kRows], right[kRows];
    for (int r = 0; kWhole && r < kRows; ++r) {
      left[r] = Sums::load(whole + r * kPanel);
      right[r] = Sums::load(whole + r * kPanel + Vec::kLanes);
    }
    for (int64_t unit = 0; unit < pass.units; ++unit) {
      if (!kWhole) pass.prefetch(panel);
      for (int r = 0; !kWhole && r < kRows; ++r) {
        left[r] = right[r] = Sums::splat(reinterpret_cast<const int32_t*>(x)[kRows + r]);
      }
      const std::byte *codes = x + kHeaders * kRows * 4, *weights = panel + kScaleBytes;
      for (int64_t step = 0; step < kSteps; ++step, codes += 4 * kRows, weights += 128) {
        pass.prefetch(weights);
        const Quads w0 = Quads::load(weights), w1 = Quads::load(weights + 64);
        if constexpr (kKind.bits == 8) {
          multiply<kRows>(w0, w1, codes, left, right);
        } else {
          multiply<kRows>(low_nibbles(w0), low_nibbles(w1), codes, left, right);
          multiply<kRows>(high_nibbles(w0), high_nibbles(w1), codes + kHalf, left, right);
        }
      }
      if (!kWhole) scale<kRows>(x, panel, left, right, pass.sums);
      settle();
      x += kRows * kLayout.row_bytes;
      panel += kLayout.bytes;
    }
    for (int r = 0; kWhole && r < kRows; ++r) {
      left[r].store(whole + r * kPanel);
      right[r].store(whole + r * kPanel + Vec::kLanes);
    }
  }

  static void finish(Vec& left, Vec& right, const std::byte* header, const RowValue& value) {
    const Vec factor = Vec::splat(value.value);
    if constexpr (kWhole) {
      const Pairs scales = Pairs::load(reinterpret_cast<const uint16_t*>(header));
      left = to_float(as_sums(left)) * (even_of(scales) * factor);
      right = to_float(as_sums(right)) * (odd_of(scales) * factor);
    } else {
      left = left + factor;  // 0, or NaN.
      right = right + factor;
    }
  }
};

}  // namespace

template <DType kWeight>
void linear_quantized(const KernelArgs& args) {
  linear<Codes<kWeight>>(args);
}

template void linear_quantized<DType::kQ8>(const KernelArgs& args);
template void linear_quantized<DType::kQ8G128>(const KernelArgs& args);
template void linear_quantized<DType::kQ8C>(const KernelArgs& args);
template void linear_quantized<DType::kQ4>(const KernelArgs& args);
template void linear_quantized<DType::kQ4G64>(const KernelArgs& args);
template void linear_quantized<DType::kQ4G128>(const KernelArgs& args);
template void linear_quantized<DType::kQ4M>(const KernelArgs& args);
template void linear_quantized<DType::kQ4MG64>(const KernelArgs& args);
template void linear_quantized<DType::kQ4MG128>(const KernelArgs& args);

}  // namespace lockstep::LOCKSTEP_ISA
