// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/quantization.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/float16.h"
#include "tests/support/goldens/dequantize.h"

namespace lockstep {
namespace {

constexpr DType kKinds[] = {DType::kQ8, DType::kQ8C, DType::kQ4, DType::kQ4M};
// The largest relative error of rounding to bfloat16.
constexpr float kBf16 = 0x1p-8f;

struct Matrix {
  int64_t rows;
  int64_t cols;
  std::vector<float> values;
};

Matrix random_matrix(int64_t rows, int64_t cols, unsigned seed, float spread = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, spread);
  Matrix matrix{rows, cols, std::vector<float>(rows * cols)};
  for (float& value : matrix.values) value = normal(engine);
  return matrix;
}

struct Codes {
  Quantization kind;
  int64_t rows;
  int64_t cols;
  std::vector<int8_t> codes;
  std::vector<uint16_t> scales;
  std::vector<uint16_t> minima;

  QuantizedRows view() {
    return {codes.data(), scales.data(), kind.minimum ? minima.data() : nullptr};
  }
  int64_t groups() const { return group_count(kind, cols); }
  float scale(int64_t row, int64_t k) const {
    return bf16_to_float(scales[row * groups() + (kind.group == 0 ? 0 : k / kind.group)]);
  }
  std::vector<float> dequantized() {
    std::vector<float> values(rows * cols);
    dequantize_rows(kind, view(), rows, cols, values.data(), cols);
    return values;
  }
};

Codes quantized(DType dtype, const Matrix& matrix) {
  Codes codes{.kind = *quantization(dtype), .rows = matrix.rows, .cols = matrix.cols};
  codes.codes.resize(matrix.rows * matrix.cols, 99);
  codes.scales.resize(matrix.rows * codes.groups());
  codes.minima.resize(codes.kind.minimum ? matrix.rows * codes.groups() : 0);
  quantize_rows(codes.kind, matrix.values.data(), matrix.cols, matrix.rows, matrix.cols,
                codes.view());
  return codes;
}

// The sum of the squared errors of row `row`, group `group`.
double group_error(const Matrix& matrix, const std::vector<float>& back, const Quantization& kind,
                   int64_t row, int64_t group) {
  double error = 0;
  const int64_t end = std::min(matrix.cols, (group + 1) * kind.group);
  for (int64_t k = group * kind.group; k < end; ++k) {
    const double off = double{matrix.values[row * matrix.cols + k]} - back[row * matrix.cols + k];
    error += off * off;
  }
  return error;
}

// Textbook int4: the element of the largest magnitude gets code -8; with a minimum, the codes are 0
// to 15.
std::vector<float> plainly_rounded(const Matrix& matrix, const Quantization& kind) {
  std::vector<float> back(matrix.values.size());
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (int64_t begin = 0; begin < matrix.cols; begin += kind.group) {
      const float* x = &matrix.values[row * matrix.cols + begin];
      const int64_t count = std::min(kind.group, matrix.cols - begin);
      const auto [low, high] = std::minmax_element(x, x + count);
      const float max = -*low >= *high ? *low : *high;
      const auto bf16 = [](float value) { return bf16_to_float(float_to_bf16(value)); };
      const float scale = bf16(kind.minimum ? (*high - *low) / 15 : max / -8);
      const float minimum = kind.minimum ? bf16(*low) : 0;
      for (int64_t k = 0; k < count; ++k) {
        const float code = scale == 0 ? 0 : std::nearbyint((x[k] - minimum) / scale);
        const float kept = kind.minimum ? std::clamp(code, 0.f, 15.f) : std::clamp(code, -8.f, 7.f);
        back[row * matrix.cols + begin + k] = kept * scale + minimum;
      }
    }
  }
  return back;
}

TEST(QuantizationTest, Int8GivesTheKnownCodesAndScale) {
  // The largest magnitude is 127 steps of 1/64, which bfloat16 represents exactly.
  const Matrix matrix{1, 5, {127 / 64.f, -1 / 64.f, 0.5f / 64, 1.5f / 64, -127 / 64.f}};
  const Codes codes = quantized(DType::kQ8, matrix);
  EXPECT_EQ(bf16_to_float(codes.scales[0]), 1 / 64.f);
  // Ties round to the even code.
  EXPECT_EQ(codes.codes, (std::vector<int8_t>{127, -1, 0, 2, -127}));
}

TEST(QuantizationTest, Int4GivesTheKnownScalesAndMinima) {
  Matrix matrix{1, 16, {}};
  for (int code = -8; code <= 7; ++code) matrix.values.push_back(code * 0.25f);
  Codes codes = quantized(DType::kQ4, matrix);
  EXPECT_EQ(codes.dequantized(), matrix.values);
  EXPECT_EQ(codes.codes[0], -8);
  EXPECT_EQ(bf16_to_float(codes.scales[0]), 0.25f);
  // With the opposite signs the scale is negative.
  for (float& value : matrix.values) value = -value;
  codes = quantized(DType::kQ4, matrix);
  EXPECT_EQ(codes.dequantized(), matrix.values);
  EXPECT_EQ(bf16_to_float(codes.scales[0]), -0.25f);
  // A range without zero needs a minimum.
  for (int i = 0; i < 16; ++i) matrix.values[i] = 3 + i * 0.125f;
  codes = quantized(DType::kQ4M, matrix);
  EXPECT_EQ(codes.dequantized(), matrix.values);
  EXPECT_EQ(bf16_to_float(codes.minima[0]), 3);
}

TEST(QuantizationTest, Int8IsWithinHalfAStepOfEveryElement) {
  for (const DType dtype : {DType::kQ8, DType::kQ8C}) {
    const Matrix matrix = random_matrix(7, 300, 1);
    Codes codes = quantized(dtype, matrix);
    const std::vector<float> back = codes.dequantized();
    for (int64_t i = 0; i < 7 * 300; ++i) {
      // Rounding the scale adds no error here, because codes are chosen with the rounded scale. The
      // quotient is rounded twice in float32.
      const float half = codes.scale(i / 300, i % 300) / 2;
      EXPECT_LE(std::abs(back[i] - matrix.values[i]), half * (1 + 127 * 0x1p-21f))
          << dtype_name(dtype) << " element " << i;
    }
  }
}

TEST(QuantizationTest, Int8ScalesAreTheLargestMagnitudeDividedBy127) {
  const Matrix matrix = random_matrix(3, 64, 2, 1e-3f);
  const Codes codes = quantized(DType::kQ8, matrix);
  for (int64_t group = 0; group < 6; ++group) {
    float max = 0;
    for (int64_t k = 0; k < 32; ++k) {
      max = std::max(max, std::abs(matrix.values[group * 32 + k]));
      EXPECT_LE(std::abs(codes.codes[group * 32 + k]), 127);
    }
    EXPECT_EQ(codes.scales[group], float_to_bf16(max / 127));
  }
}

TEST(QuantizationTest, Int8OfDequantizedValuesGivesTheSameValues) {
  for (const DType dtype : {DType::kQ8, DType::kQ8C}) {
    for (const float spread : {1.0f, 1e-20f, 1e20f}) {
      Codes once = quantized(dtype, random_matrix(9, 200, 3, spread));
      const Codes twice = quantized(dtype, {9, 200, once.dequantized()});
      EXPECT_EQ(once.codes, twice.codes) << dtype_name(dtype);
      EXPECT_EQ(once.scales, twice.scales) << dtype_name(dtype);
    }
  }
}

TEST(QuantizationTest, Int4IsNeverWorseThanPlainRounding) {
  for (const DType dtype : kKinds) {
    const Quantization kind = *quantization(dtype);
    if (kind.bits != 4) continue;
    // The sum over groups of error / (error of plain rounding). It is a sum of quotients so that no
    // group with an outlier dominates it.
    double shares = 0;
    int groups = 0;
    for (const float spread : {1.0f, 1e-12f, 1e12f}) {
      Matrix matrix = random_matrix(10, 333, 4, spread);
      matrix.values[5] *= 20;  // Row 0 has an outlier; row 1 has one sign.
      for (int64_t k = 0; k < 333; ++k) matrix.values[333 + k] = std::abs(matrix.values[333 + k]);
      const std::vector<float> back = quantized(dtype, matrix).dequantized();
      const std::vector<float> plain_back = plainly_rounded(matrix, kind);
      for (int64_t row = 0; row < 10; ++row) {
        for (int64_t group = 0; group < group_count(kind, 333); ++group) {
          const double error = group_error(matrix, back, kind, row, group);
          const double bound = group_error(matrix, plain_back, kind, row, group);
          // Errors are summed in float32: 32 roundings, and 32 more of the squares.
          EXPECT_LE(error, bound * (1 + 64 * 0x1p-23))
              << dtype_name(dtype) << " row " << row << " group " << group;
          if (bound == 0) continue;
          shares += error / bound;
          ++groups;
        }
      }
    }
    EXPECT_LT(shares, 0.95 * groups) << dtype_name(dtype) << ": the search finds nothing";
  }
}

TEST(QuantizationTest, ZerosStayZero) {
  for (const DType dtype : kKinds) {
    Codes codes = quantized(dtype, {5, 70, std::vector<float>(350)});
    EXPECT_EQ(codes.dequantized(), std::vector<float>(350)) << dtype_name(dtype);
    EXPECT_EQ(codes.codes, std::vector<int8_t>(350)) << dtype_name(dtype);
  }
}

TEST(QuantizationTest, TinyGroupsBecomeZeroAndTheirNeighboursDoNot) {
  for (const DType dtype : kKinds) {
    const Quantization kind = *quantization(dtype);
    if (kind.group == 0) continue;
    Matrix matrix{1, 2 * kind.group, std::vector<float>(2 * kind.group, 0x1p-120f)};
    for (int64_t k = 0; k < kind.group; ++k) matrix.values[k] = 2.0f;
    const std::vector<float> back = quantized(dtype, matrix).dequantized();
    EXPECT_NEAR(back[0], 2.0f, 2 * kBf16) << dtype_name(dtype);
    EXPECT_EQ(back[kind.group], 0.0f) << dtype_name(dtype);
  }
}

TEST(QuantizationTest, AGroupOfOneElementIsAsPreciseAsItsScale) {
  for (const DType dtype : kKinds) {
    const Quantization kind = *quantization(dtype);
    const int64_t cols = kind.group + 1;  // The last group has one element.
    Matrix matrix = random_matrix(5, cols, 5);
    const std::vector<float> back = quantized(dtype, matrix).dequantized();
    for (int64_t row = 0; row < 5; ++row) {
      const float x = matrix.values[row * cols + cols - 1];
      EXPECT_NEAR(back[row * cols + cols - 1], x, std::abs(x) * kBf16) << dtype_name(dtype);
    }
  }
}

TEST(QuantizationTest, AShortLastGroupIsQuantizedAlone) {
  for (const DType dtype : kKinds) {
    const Quantization kind = *quantization(dtype);
    if (kind.group == 0) continue;
    const int64_t cols = kind.group + 5;
    const Matrix matrix = random_matrix(6, cols, 6);
    Matrix tail{6, 5, {}};
    for (int64_t row = 0; row < 6; ++row) {
      for (int64_t k = kind.group; k < cols; ++k) {
        tail.values.push_back(matrix.values[row * cols + k]);
      }
    }
    const std::vector<float> all = quantized(dtype, matrix).dequantized();
    const std::vector<float> alone = quantized(dtype, tail).dequantized();
    for (int64_t i = 0; i < 30; ++i) {
      EXPECT_EQ(all[i / 5 * cols + kind.group + i % 5], alone[i]) << dtype_name(dtype);
    }
  }
}

// Ranks, threads and loads in blocks quantize different subsets of the rows.
TEST(QuantizationTest, ARowDoesNotDependOnTheOtherRows) {
  for (const DType dtype : kKinds) {
    const Matrix matrix = random_matrix(9, 257, 7);
    const Codes all = quantized(dtype, matrix);
    for (int64_t row = 0; row < 9; ++row) {
      const float* begin = &matrix.values[row * 257];
      const Codes one = quantized(dtype, {1, 257, std::vector<float>(begin, begin + 257)});
      EXPECT_TRUE(std::equal(one.codes.begin(), one.codes.end(), &all.codes[row * 257]));
      EXPECT_TRUE(
          std::equal(one.scales.begin(), one.scales.end(), &all.scales[row * all.groups()]));
      EXPECT_TRUE(one.minima.empty() ||
                  std::equal(one.minima.begin(), one.minima.end(), &all.minima[row * all.groups()]))
          << dtype_name(dtype) << " row " << row;
    }
  }
}

TEST(QuantizationTest, RowsAreReadByTheirStride) {
  const Matrix wide = random_matrix(3, 100, 8);
  Matrix narrow{3, 40, {}};
  for (int64_t i = 0; i < 120; ++i) narrow.values.push_back(wide.values[i / 40 * 100 + i % 40]);
  Codes expected = quantized(DType::kQ4M, narrow), found = expected;
  std::fill(found.codes.begin(), found.codes.end(), int8_t{99});
  quantize_rows(found.kind, wide.values.data(), 100, 3, 40, found.view());
  EXPECT_EQ(found.codes, expected.codes);
  EXPECT_EQ(found.scales, expected.scales);
}

TEST(QuantizationTest, DequantizingIsCodeTimesScalePlusMinimum) {
  int8_t codes[] = {15, 3};
  uint16_t scale = float_to_bf16(0.0703125f), minimum = float_to_bf16(-100.0f);
  float out[2];
  dequantize_rows(*quantization(DType::kQ4M), {codes, &scale, &minimum}, 1, 2, out, 2);
  EXPECT_EQ(out[0], std::fma(15.0f, 0.0703125f, -100.0f));
  EXPECT_EQ(out[1], std::fma(3.0f, 0.0703125f, -100.0f));
}

TEST(QuantizationTest, BytesCountCodesScalesAndMinima) {
  EXPECT_EQ(quantized_bytes(*quantization(DType::kQ8), 3, 64), 3 * (64 + 2 * 2));
  EXPECT_EQ(quantized_bytes(*quantization(DType::kQ8C), 3, 64), 3 * (64 + 2));
  EXPECT_EQ(quantized_bytes(*quantization(DType::kQ4), 3, 65), 3 * (33 + 3 * 2));
  EXPECT_EQ(quantized_bytes(*quantization(DType::kQ4M), 3, 64), 3 * (32 + 2 * 4));
}

}  // namespace
}  // namespace lockstep
