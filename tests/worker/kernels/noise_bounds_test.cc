// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/cuda/candidates/noise_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/numbers/noise.h"

namespace lockstep::cuda_shim {
namespace {

// The noise of exact::gumbel_noise() for these bits, with the lowest or the highest other bits.
float noise_of(uint32_t bits, uint32_t low_bits) {
  const uint64_t all = uint64_t{bits} << 20 | low_bits >> 12;
  return static_cast<float>(-exact::log(-exact::log((static_cast<double>(all) + 0.5) * 0x1p-52)));
}

// Less than half of the least distance of the noise to its bounds.
constexpr float kMargin = 0.001f;

void expect_within(uint32_t bits) {
  const NoiseBounds bounds = noise_bounds(bits);
  const float low = noise_of(bits, 0), high = noise_of(bits, ~0u);
  ASSERT_LE(bounds.low + kMargin, std::min(low, high)) << bits;
  ASSERT_GE(bounds.high - kMargin, std::max(low, high)) << bits;
}

TEST(NoiseBoundsTest, TheNoiseIsWithinThemWithAMarginForAnotherLogarithm) {
  for (uint32_t bits = 0; bits < 5000; ++bits) {
    expect_within(bits);
    expect_within(~bits);
  }
  std::mt19937 random(7);
  for (int draw = 0; draw < 100000; ++draw) {
    const auto bits = static_cast<uint32_t>(random());
    expect_within(bits);
    expect_within(bits >> random() % 24);
    expect_within(~(bits >> random() % 24));
  }
}

TEST(NoiseBoundsTest, TheyAreCloseExceptAtBothEnds) {
  for (const uint32_t bits : {512u, 100000u, 0x80000000u, 0xe6666666u, ~512u}) {
    const NoiseBounds bounds = noise_bounds(bits);
    EXPECT_LT(bounds.high - bounds.low, 0.01f) << bits;
  }
}

TEST(NoiseBoundsTest, AgreeWithTheNoiseOfTokens) {
  for (int32_t id = 0; id < 20000; ++id) {
    uint32_t low_bits = 0;
    const NoiseBounds bounds = noise_bounds(exact::gumbel_bits(99, 7, id, &low_bits));
    const float noise = exact::gumbel_noise(99, 7, id);
    ASSERT_LE(bounds.low, noise) << id;
    ASSERT_GE(bounds.high, noise) << id;
  }
}

}  // namespace
}  // namespace lockstep::cuda_shim
