// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace lockstep {
namespace {

constexpr uint64_t kSeed = 20240607;
constexpr int kDraws = 200000;

void expect_close(double found, double wanted, double x) {
  ASSERT_LE(std::abs(found - wanted), 1e-14 * std::abs(wanted)) << "at " << x << " " << wanted;
}

TEST(MathTest, ExpAgreesWithTheLibrary) {
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> near(-1, 1), far(-708, 709);
  for (int i = 0; i < kDraws; ++i) {
    const double x = i % 2 ? near(random) : far(random);
    expect_close(exact_exp(x), std::exp(x), x);
  }
}

TEST(MathTest, ExpOverflowsAndUnderflowsAtTheEndsOfTheRange) {
  EXPECT_EQ(exact_exp(0), 1);
  EXPECT_EQ(exact_exp(-746), 0);
  EXPECT_EQ(exact_exp(-std::numeric_limits<double>::infinity()), 0);
  EXPECT_GT(exact_exp(-745), 0);
  EXPECT_TRUE(std::isinf(exact_exp(710)));
  EXPECT_TRUE(std::isfinite(exact_exp(709.7)));
  EXPECT_TRUE(std::isnan(exact_exp(std::nan(""))));
}

TEST(MathTest, LogAgreesWithTheLibrary) {
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> near(0.5, 2), power(-1000, 1000);
  for (int i = 0; i < kDraws; ++i) {
    const double x = i % 2 ? near(random) : std::exp2(power(random));
    expect_close(exact_log(x), std::log(x), x);
  }
  expect_close(exact_log(5e-324), std::log(5e-324), 5e-324);
  EXPECT_EQ(exact_log(1), 0);
  EXPECT_EQ(exact_log(0), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(exact_log(-1)));
}

TEST(MathTest, SinAndCosAgreeWithTheLibraryForAnglesOfLongContexts) {
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> near(-4, 4), far(-0x1p30, 0x1p30), some(-1e5, 1e5);
  for (int i = 0; i < kDraws; ++i) {
    double x = i % 3 == 0 ? near(random) : i % 3 == 1 ? far(random) : some(random);
    if (i % 2) x = static_cast<float>(x);
    if (!(std::abs(x) < 0x1p30)) continue;
    expect_close(exact_sin(x), std::sin(x), x);
    expect_close(exact_cos(x), std::cos(x), x);
  }
}

TEST(MathTest, SinAndCosStayAccurateNearMultiplesOfAQuarterTurn) {
  for (int i = 1; i < 100000; i += 7) {
    for (const double x : {i * M_PI_2, static_cast<double>(static_cast<float>(i * M_PI_2))}) {
      expect_close(exact_sin(x), std::sin(x), x);
      expect_close(exact_cos(x), std::cos(x), x);
    }
  }
  EXPECT_EQ(exact_sin(0), 0);
  EXPECT_EQ(exact_cos(0), 1);
  EXPECT_TRUE(std::isnan(exact_sin(0x1p31)));
}

TEST(MathTest, PowIsExactEnoughForRotaryFrequencies) {
  for (const double base : {1e4, 5e5, 1e6}) {
    for (int i = 0; i < 128; i += 2) {
      const double wanted = std::pow(base, -i / 128.0);
      EXPECT_NEAR(exact_pow(base, -i / 128.0) / wanted, 1, 1e-14);
    }
  }
}

TEST(GumbelTest, NoiseDependsOnSeedPositionAndTokenAlone) {
  // The same arguments give the same noise, and each of the three arguments changes the noise.
  EXPECT_EQ(gumbel_noise(0, 0, 0), gumbel_noise(0, 0, 0));
  EXPECT_NE(gumbel_noise(0, 0, 0), gumbel_noise(1, 0, 0));
  EXPECT_NE(gumbel_noise(0, 0, 0), gumbel_noise(0, 1, 0));
  EXPECT_NE(gumbel_noise(0, 0, 0), gumbel_noise(0, 0, 1));
}

TEST(GumbelTest, NoiseHasTheMomentsOfTheGumbelDistribution) {
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = gumbel_noise(kSeed, i / 1000, i % 1000);
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 0.5772156649, 0.02);
  EXPECT_NEAR(squares / kDraws - mean * mean, M_PI * M_PI / 6, 0.04);
}

TEST(GumbelTest, TheLargestOfLogitPlusNoiseFollowsTheSoftmax) {
  const double logits[3] = {0, 1, 2};
  const double total = std::exp(0) + std::exp(1) + std::exp(2);
  int wins[3] = {};
  for (int position = 0; position < kDraws; ++position) {
    int best = 0;
    double best_value = -1e9;
    for (int id = 0; id < 3; ++id) {
      const double value = logits[id] + gumbel_noise(kSeed, position, id);
      if (value > best_value) {
        best_value = value;
        best = id;
      }
    }
    ++wins[best];
  }
  for (int id = 0; id < 3; ++id) {
    EXPECT_NEAR(wins[id] / double{kDraws}, std::exp(logits[id]) / total, 0.005);
  }
}

}  // namespace
}  // namespace lockstep
