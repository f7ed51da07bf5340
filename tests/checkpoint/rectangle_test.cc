// SPDX-License-Identifier: Apache-2.0
// Widening agrees with base's scalar conversions bit for bit, and transposing with its definition.
#include "checkpoint/rectangle.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/numbers/float16.h"

namespace lockstep {
namespace {

std::vector<uint16_t> all_halves() {
  std::vector<uint16_t> values(1 << 16);
  std::iota(values.begin(), values.end(), uint16_t{0});
  return values;
}

TEST(WidenTest, EveryFloat16IsExact) {
  const std::vector<uint16_t> source = all_halves();
  std::vector<float> out(source.size());
  widen(DType::kF16, source.data(), static_cast<int64_t>(source.size()), out.data());
  for (size_t i = 0; i < source.size(); ++i) {
    const float expected = f16_to_float(source[i]);
    ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(expected)) << i;
    if (!std::isnan(expected)) {
      ASSERT_EQ(float_to_f16(out[i]), source[i]);
    }
  }
}

TEST(WidenTest, EveryBfloat16IsExact) {
  const std::vector<uint16_t> source = all_halves();
  std::vector<float> out(source.size());
  widen(DType::kBF16, source.data(), static_cast<int64_t>(source.size()), out.data());
  for (size_t i = 0; i < source.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), uint32_t{source[i]} << 16);
  }
}

TEST(WidenTest, OddLengthsWriteNothingPastTheEnd) {
  const std::vector<uint16_t> source(64, 0x3c00);
  for (int64_t count = 0; count < 40; ++count) {
    std::vector<float> out(64, -7.0f);
    widen(DType::kF16, source.data(), count, out.data());
    for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i < count ? 1.0f : -7.0f);
  }
}

TEST(TransposeTest, TransposingMovesEveryElementToItsPlace) {
  for (const int64_t rows : {1, 15, 16, 17, 40}) {
    for (const int64_t cols : {1, 3, 16, 33}) {
      std::vector<float> source(rows * cols);
      std::iota(source.begin(), source.end(), 0.0f);
      const int64_t stride = rows + 5;
      std::vector<float> out(cols * stride, -1.0f);
      transpose(source.data(), rows, cols, out.data(), stride);
      for (int64_t c = 0; c < cols; ++c) {
        for (int64_t r = 0; r < stride; ++r) {
          EXPECT_EQ(out[c * stride + r], r < rows ? source[r * cols + c] : -1.0f);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
