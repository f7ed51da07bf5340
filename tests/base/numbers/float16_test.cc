// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

TEST(Float16Test, EveryHalfSurvivesConversionToFloatAndBack) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float wide = f16_to_float(half);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(wide))));
    } else {
      ASSERT_EQ(float_to_f16(wide), half) << bits;
    }
  }
}

TEST(Float16Test, HalvesRoundToNearestEven) {
  EXPECT_EQ(float_to_f16(1.0f + 0x1p-11f), float_to_f16(1.0f));
  EXPECT_EQ(float_to_f16(1.0f + 0x3p-11f), float_to_f16(1.0f + 0x1p-9f));
  EXPECT_EQ(float_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_f16(0x1p-25f), 0);
  EXPECT_EQ(float_to_f16(0x1.8p-25f), 1);
  EXPECT_EQ(float_to_f16(-0.0f), 0x8000);
}

TEST(Float16Test, EveryBfloat16SurvivesConversionToFloatAndBack) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float wide = bf16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(wide))));
    } else {
      ASSERT_EQ(float_to_bf16(wide), bits);
    }
  }
}

TEST(Float16Test, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(float_to_bf16(1.0f + 0x1p-8f), float_to_bf16(1.0f));
  EXPECT_EQ(float_to_bf16(1.0f + 0x3p-8f), float_to_bf16(1.0f + 0x1p-6f));
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace lockstep
