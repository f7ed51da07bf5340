// SPDX-License-Identifier: Apache-2.0
#include "tools/load/lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace lockstep {
namespace {

std::vector<int64_t> drawn(const std::string& text, int count) {
  const absl::StatusOr<Lengths> lengths = Lengths::parse("--prompt-tokens", text);
  EXPECT_TRUE(lengths.ok()) << text << ": " << lengths.status();
  std::mt19937_64 random(1);
  std::vector<int64_t> all;
  for (int i = 0; i < count && lengths.ok(); ++i) all.push_back(lengths->draw(random));
  std::ranges::sort(all);
  return all;
}

TEST(LengthsTest, AFixedLengthIsAlwaysTheSame) {
  const std::vector<int64_t> all = drawn("128", 10);
  EXPECT_EQ(all, std::vector<int64_t>(10, 128));
}

TEST(LengthsTest, UniformLengthsReachBothEndsEvenly) {
  const std::vector<int64_t> all = drawn("3:6", 4000);
  for (int64_t length = 3; length <= 6; ++length) {
    EXPECT_NEAR(std::ranges::count(all, length), 1000, 120) << length;
  }
  EXPECT_EQ(all.front(), 3);
  EXPECT_EQ(all.back(), 6);
}

TEST(LengthsTest, LognormalLengthsHaveTheirMedianAndDeviation) {
  const std::vector<int64_t> all = drawn("lognormal:400:0.5", 4001);
  EXPECT_NEAR(static_cast<double>(all[2000]), 400, 20);
  // 84.1 % of the lengths are below the median times exp(0.5).
  EXPECT_NEAR(static_cast<double>(all[3366]), 400 * 1.6487, 40);
}

TEST(LengthsTest, LognormalLengthsStayWithinTheLimits) {
  const std::vector<int64_t> all = drawn("lognormal:1:5", 10000);
  EXPECT_EQ(all.front(), 1);
  EXPECT_LE(all.back(), Lengths::kMax);
}

TEST(LengthsTest, OtherTextsAreRefusedWithTheNameOfTheFlag) {
  for (const char* text : {"", "0", "-1", "1.5", "a", "5:4", "1:", ":1", "1:2:3", "10000001",
                           "lognormal:", "1 ", "lognormal:5", "lognormal:5:-1", "lognormal:5:6",
                           "lognormal:5:nan", "lognormal:0:1", "99999999999999999999"}) {
    const absl::StatusOr<Lengths> lengths = Lengths::parse("--prompt-tokens", text);
    ASSERT_FALSE(lengths.ok()) << text;
    EXPECT_EQ(message_of(lengths.status()).find("--prompt-tokens: must be "), 0u);
  }
}

}  // namespace
}  // namespace lockstep
