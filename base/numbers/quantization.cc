// SPDX-License-Identifier: Apache-2.0
// int8 is quantized group by group. int4 is quantized for four rows at a time: the same group of
// each row, with one row per lane of a vector. So a sum over a group runs in the order of its
// elements, no lanes are added to each other, and the bits are the same everywhere.
#include "base/numbers/quantization.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "base/numbers/float16.h"

namespace lockstep {
namespace {

constexpr int kLanes = 4;
using Floats [[gnu::vector_size(16)]] = float;
using Ints [[gnu::vector_size(16)]] = int32_t;
using Bits [[gnu::vector_size(16)]] = uint32_t;

constexpr int64_t kMaxInGroup = 32;
// Adding it to a value below 2^22 rounds to the nearest integer, ties to even, in the low bits.
constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23
constexpr int32_t kRounderBits = std::bit_cast<int32_t>(kRounder);
constexpr float kMin = 0x1p-100f;  // Smaller groups become zeros: their scales would be subnormal.

Floats all(float value) { return Floats{value, value, value, value}; }
Floats select(Ints mask, Floats a, Floats b) { return mask ? a : b; }
Floats smaller(Floats a, Floats b) { return a < b ? a : b; }
Floats larger(Floats a, Floats b) { return a > b ? a : b; }
Floats magnitude(Floats x) { return std::bit_cast<Floats>(std::bit_cast<Bits>(x) & 0x7fffffffu); }
Floats inverse(Floats x) { return select(x == 0, all(0), 1.0f / x); }

Floats load(const float* from) {
  Floats result;
  std::memcpy(&result, from, sizeof(result));
  return result;
}

// Rounds finite values to the nearest bfloat16.
Floats to_bf16(Floats x) {
  const Bits bits = std::bit_cast<Bits>(x);
  return std::bit_cast<Floats>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
}

uint16_t upper_half(float bf16) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(bf16) >> 16);
}

// --- int8.

float largest_magnitude(const float* x, int64_t count) {
  Floats max = all(0);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) max = larger(max, magnitude(load(x + i)));
  float result = std::max(std::max(max[0], max[1]), std::max(max[2], max[3]));
  for (; i < count; ++i) result = std::max(result, std::abs(x[i]));
  return result;
}

// The largest magnitude gives code 127: rounding the scale moves the quotient by at most 127 * 2^-9
// < 0.5.
void quantize_int8_group(const float* x, int64_t count, int8_t* codes, uint16_t* scale) {
  constexpr int kBlock = 16;
  const float max = largest_magnitude(x, count);
  *scale = max < kMin ? 0 : float_to_bf16(max / 127.0f);
  const float factor = *scale == 0 ? 0.0f : 1.0f / bf16_to_float(*scale);
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    int32_t rounded[kBlock];
    for (int j = 0; j < kBlock; ++j) {
      rounded[j] = std::bit_cast<int32_t>(x[i + j] * factor + kRounder);
    }
    for (int j = 0; j < kBlock; ++j) codes[i + j] = static_cast<int8_t>(rounded[j] - kRounderBits);
  }
  for (; i < count; ++i) {
    const int32_t rounded = std::bit_cast<int32_t>(x[i] * factor + kRounder);
    codes[i] = static_cast<int8_t>(rounded - kRounderBits);
  }
}

void quantize_int8(const Quantization& kind, const float* source, int64_t stride, int64_t rows,
                   int64_t cols, const QuantizedRows& out) {
  const int64_t groups = group_count(kind, cols);
  const int64_t size = kind.group == 0 ? cols : kind.group;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t begin = group * size;
      quantize_int8_group(source + row * stride + begin, std::min(size, cols - begin),
                          out.codes + row * cols + begin, out.scales + row * groups + group);
    }
  }
}

// --- int4.

// Plain rounding, the first trial, uses the scale m / -8, which maps the element m of largest
// magnitude to the code -8. Other trials map m to -7 .. -8.6 steps, or with the other sign to 6.6
// .. 8.2; codes outside of -8 .. 7 are clipped. The better sign depends on how many elements of
// each sign are large.
constexpr float kSteps[] = {-8.0f, -7.0f, -7.4f, -7.7f, -8.3f, -8.6f,
                            6.6f,  6.9f,  7.2f,  7.5f,  7.8f,  8.2f};
// With a minimum, a trial divides the group's range into this many steps. All trials have the same
// middle. More trials gain nothing, because least squares then moves both ends of the range.
constexpr float kRanges[] = {15.0f, 14.4f, 16.0f, 17.0f, 18.0f, 19.0f};
constexpr int kRefinements = 3;  // Rounds of least squares for the codes, then new codes.

// One group of each of four rows, scaled by a power of two so that the largest magnitude is 1 to 4.
struct Lane4 {
  Floats x[kMaxInGroup];
  int64_t count;
  Floats unit;
  Floats low;
  Floats high;
  Floats extreme;  // The first element with the largest magnitude.
};

// How a lane's elements become codes: x is about code * scale + minimum.
struct Fit {
  Floats scale = all(0);
  Floats minimum = all(0);
  Floats error = all(0);  // The sum of squared errors.

  void take_better(const Fit& other) {
    const Ints better = other.error < error;
    scale = select(better, other.scale, scale);
    minimum = select(better, other.minimum, minimum);
    error = select(better, other.error, error);
  }
};

template <bool kMinimum>
[[gnu::always_inline]] inline Floats code_of(Floats x, Floats factor, Floats minimum) {
  const Floats min = all(kMinimum ? 0.0f : -8.0f);
  const Floats max = all(kMinimum ? 15.0f : 7.0f);
  const Floats steps = (kMinimum ? x - minimum : x) * factor;
  return (smaller(larger(steps, min), max) + kRounder) - kRounder;
}

template <bool kMinimum>
[[gnu::always_inline]] inline Floats residue(Floats x, const Fit& fit, Floats factor) {
  const Floats back = code_of<kMinimum>(x, factor, fit.minimum) * fit.scale;
  return x - (kMinimum ? back + fit.minimum : back);
}

// Measures two fits at once: in a single sum, each addition would wait for the one before.
template <bool kMinimum>
void measure(const Lane4& lanes, Fit& a, Fit& b) {
  const Floats factor_a = inverse(a.scale), factor_b = inverse(b.scale);
  Floats error_a = all(0), error_b = all(0);
  for (int64_t k = 0; k < lanes.count; ++k) {
    const Floats off_a = residue<kMinimum>(lanes.x[k], a, factor_a);
    const Floats off_b = residue<kMinimum>(lanes.x[k], b, factor_b);
    error_a += off_a * off_a;
    error_b += off_b * off_b;
  }
  a.error = error_a;
  b.error = error_b;
}

template <bool kMinimum>
Fit trial(const Lane4& lanes, int index) {
  if (!kMinimum) return {.scale = to_bf16(lanes.extreme / kSteps[index])};
  const Floats scale = to_bf16((lanes.high - lanes.low) / kRanges[index]);
  const Floats middle = (lanes.high + lanes.low) * 0.5f;
  return {.scale = scale, .minimum = to_bf16(index == 0 ? lanes.low : middle - scale * 7.5f)};
}

Floats quotient_or(Floats above, Floats below, Floats otherwise) {
  return select(below == 0, otherwise, above / below);
}

// Least squares of x over the codes that `fit` gives; unchanged if all codes are the same.
template <bool kMinimum>
Fit refined(const Lane4& lanes, const Fit& fit) {
  const Floats factor = inverse(fit.scale);
  Floats codes = all(0), squares = all(0), sum = all(0), products = all(0);
  for (int64_t k = 0; k < lanes.count; ++k) {
    const Floats code = code_of<kMinimum>(lanes.x[k], factor, fit.minimum);
    codes += code;
    squares += code * code;
    sum += lanes.x[k];
    products += code * lanes.x[k];
  }
  if (!kMinimum) return {.scale = to_bf16(quotient_or(products, squares, fit.scale))};
  const auto count = static_cast<float>(lanes.count);
  const Floats scale = to_bf16(
      quotient_or(products * count - codes * sum, squares * count - codes * codes, fit.scale));
  return {.scale = scale, .minimum = to_bf16((sum - scale * codes) / count)};
}

template <bool kMinimum>
Fit search(const Lane4& lanes) {
  constexpr int kTrials = kMinimum ? std::size(kRanges) : std::size(kSteps);
  static_assert(kTrials % 2 == 0);
  Fit best;
  for (int i = 0; i < kTrials; i += 2) {
    Fit a = trial<kMinimum>(lanes, i), b = trial<kMinimum>(lanes, i + 1);
    measure<kMinimum>(lanes, a, b);
    if (i == 0) best = a;
    best.take_better(a);
    best.take_better(b);
  }
  for (int i = 0; i < kRefinements; ++i) {
    Fit fit = refined<kMinimum>(lanes, best), again = fit;
    measure<kMinimum>(lanes, fit, again);
    best.take_better(fit);
  }
  return best;
}

// `rows` points to the beginning of the group in each lane's row.
void gather(const float* const rows[kLanes], int64_t count, Lane4& lanes) {
  Floats max = all(0);
  lanes.count = count;
  for (int64_t k = 0; k < count; ++k) {
    lanes.x[k] = Floats{rows[0][k], rows[1][k], rows[2][k], rows[3][k]};
    max = larger(max, magnitude(lanes.x[k]));
  }
  // Powers of two change no bit of the mantissa and keep squares far from overflow.
  const Bits exponent = std::bit_cast<Bits>(max) & 0x7f800000u;
  const Bits capped = exponent < 0x7e800000u ? exponent : exponent * 0 + 0x7e800000u;
  const Floats factor = select(max < kMin, all(0), std::bit_cast<Floats>(0x7f000000u - capped));
  lanes.unit = select(max < kMin, all(0), std::bit_cast<Floats>(capped));
  lanes.low = lanes.high = lanes.extreme = lanes.x[0] * factor;
  for (int64_t k = 0; k < count; ++k) {
    const Floats x = lanes.x[k] = lanes.x[k] * factor;
    lanes.low = smaller(lanes.low, x);
    lanes.high = larger(lanes.high, x);
    lanes.extreme = select(magnitude(x) > magnitude(lanes.extreme), x, lanes.extreme);
  }
}

template <bool kMinimum>
void quantize_int4(int64_t group_size, const float* source, int64_t stride, int64_t rows,
                   int64_t cols, const QuantizedRows& out) {
  const int64_t groups = (cols + group_size - 1) / group_size;
  Lane4 lanes;
  Ints codes[kMaxInGroup];
  for (int64_t row = 0; row < rows; row += kLanes) {
    const int used = static_cast<int>(std::min<int64_t>(kLanes, rows - row));
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t begin = group * group_size;
      const int64_t count = std::min(group_size, cols - begin);
      const float* from[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        from[i] = source + (row + std::min(i, used - 1)) * stride + begin;
      }
      gather(from, count, lanes);
      const Fit fit = search<kMinimum>(lanes);
      const Floats factor = inverse(fit.scale);
      for (int64_t k = 0; k < count; ++k) {
        codes[k] =
            __builtin_convertvector(code_of<kMinimum>(lanes.x[k], factor, fit.minimum), Ints);
      }
      const Floats scale = fit.scale * lanes.unit, minimum = fit.minimum * lanes.unit;
      for (int i = 0; i < used; ++i) {
        int8_t* to = out.codes + (row + i) * cols + begin;
        for (int64_t k = 0; k < count; ++k) to[k] = static_cast<int8_t>(codes[k][i]);
        out.scales[(row + i) * groups + group] = upper_half(scale[i]);
        if (kMinimum) out.minima[(row + i) * groups + group] = upper_half(minimum[i]);
      }
    }
  }
}

}  // namespace

void quantize_rows(const Quantization& kind, const float* source, int64_t stride, int64_t rows,
                   int64_t cols, const QuantizedRows& out) {
  if (kind.bits == 8) {
    quantize_int8(kind, source, stride, rows, cols, out);
  } else if (kind.minimum) {
    quantize_int4<true>(kind.group, source, stride, rows, cols, out);
  } else {
    quantize_int4<false>(kind.group, source, stride, rows, cols, out);
  }
}

}  // namespace lockstep
