// SPDX-License-Identifier: Apache-2.0
// Linears with weights of small integers at extreme values.
#include <limits>

#include "tests/worker/kernels/weights_case.h"

namespace lockstep {
namespace {

std::vector<KernelEntry> quantized_kernels() {
  std::vector<KernelEntry> found;
  for (const KernelEntry& kernel : kernels_of(Op::kLinear)) {
    if (quantization(kernel.weight)) found.push_back(kernel);
  }
  return found;
}

void fill(const Matrix& matrix, float value) {
  for (int64_t r = 0; r < matrix.view().rows; ++r) {
    for (int64_t c = 0; c < matrix.view().cols; ++c) {
      reference::set_element(matrix.view(), r, c, value);
    }
  }
}

Matrix reference_of(const Linear& linear) {
  Matrix wanted(linear.x.view().rows, linear.weight.view().rows);
  reference::kernel(Op::kLinear)(linear.args(wanted, false));
  return wanted;
}

class QuantizedTest : public testing::TestWithParam<KernelEntry> {};

TEST_P(QuantizedTest, ExtremeCodesDoNotSaturate) {
  // All sums are integers below 2^24, so they are exact.
  for (const float x : {127.0f, -127.0f}) {
    for (const bool largest : {false, true}) {
      Linear linear(GetParam(), 9, 40, 256);
      linear.weight = Weights(40, 256, GetParam().weight);
      const auto [min, max] = linear.weight.code_range();
      for (int8_t& code : linear.weight.codes()) code = static_cast<int8_t>(largest ? max : min);
      for (uint16_t& minimum : linear.weight.minima()) minimum = float_to_bf16(3);
      fill(linear.x, x);
      const Matrix found = linear.run_kernel(GetParam(), 1, false);
      expect_same_bits(found.view(), reference_of(linear).view(), "extreme codes");
    }
  }
}

TEST_P(QuantizedTest, GroupsOfZerosGiveExactlyZero) {
  Linear linear(GetParam(), 3, 40, 300);
  linear.weight = Weights::random(40, 300, 4, GetParam().weight);
  // The cases: nonzero codes with a scale of 0, a scale of -0, and x of 0.
  for (size_t i = 0; i < linear.weight.scales().size(); ++i) {
    linear.weight.scales()[i] = i % 2 == 0 ? 0x0000 : 0x8000;
  }
  for (uint16_t& minimum : linear.weight.minima()) minimum = 0;
  const Matrix no_weight = linear.run_kernel(GetParam(), 1, false);
  linear.weight = Weights::random(40, 300, 4, GetParam().weight);
  fill(linear.x, 0);
  const Matrix no_x = linear.run_kernel(GetParam(), 1, false);
  for (int64_t n = 0; n < 40; ++n) {
    EXPECT_EQ(no_weight.at(1, n), 0.0f);
    EXPECT_EQ(no_x.at(1, n), 0.0f);
  }
}

TEST_P(QuantizedTest, TinyAndHugeScalesAreScaledExactly) {
  // One group and small integers: only the scales could be wrong. 2^-130 is a denormal.
  for (const float scale : {0x1p-130f, 0x1p-70f, -0x1p-60f, 0x1p-20f, -0x1.8p+40f, 0x1p+60f}) {
    for (const float x : {0x1p-40f, 1.0f, 0x1p+30f}) {
      Linear linear(GetParam(), 2, 33, 32);
      linear.weight = Weights(33, 32, GetParam().weight);
      for (int8_t& code : linear.weight.codes()) code = 5;
      for (uint16_t& s : linear.weight.scales()) s = float_to_bf16(scale);
      fill(linear.x, 127 * x);
      const Matrix found = linear.run_kernel(GetParam(), 1, false);
      expect_same_bits(found.view(), linear.run_kernel(portable_of(GetParam()), 1, false).view(),
                       "portable");
      const Matrix wanted = reference_of(linear);
      // q8's scales are rounded, and multiplying by them rounds again.
      ASSERT_NEAR(found.at(1, 32), wanted.at(1, 32),
                  0x1p-22 * std::abs(wanted.at(1, 32)) + 0x1p-126)
          << scale << " * " << x;
    }
  }
}

TEST_P(QuantizedTest, OnlyARowThatIsNotFiniteBecomesNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {std::nanf(""), infinity, -infinity}) {
    Linear linear(GetParam(), 10, 40, 300);
    const Matrix before = linear.run_kernel(GetParam());
    reference::set_element(linear.x.view(), 4, 290, value);
    const Matrix found = linear.run_kernel(GetParam());
    for (int64_t n = 0; n < 40; ++n) {
      EXPECT_FALSE(std::isfinite(found.at(4, n)));
      EXPECT_EQ(found.at(3, n), before.at(3, n));
      EXPECT_EQ(found.at(5, n), before.at(5, n));
    }
  }
}

TEST_P(QuantizedTest, TheLongestRowDoesNotOverflow) {
  constexpr int64_t kDepth = 131072;
  Linear linear(GetParam(), 1, 2, kDepth);
  linear.weight = Weights(2, kDepth, GetParam().weight);
  const auto [min, max] = linear.weight.code_range();
  for (int64_t i = 0; i < 2 * kDepth; ++i) {
    linear.weight.codes()[static_cast<size_t>(i)] = static_cast<int8_t>(i < kDepth ? min : max);
  }
  fill(linear.x, -127);
  const Matrix found = linear.run_kernel(GetParam(), 1, false), wanted = reference_of(linear);
  for (int64_t n = 0; n < 2; ++n) {
    // At most 131072 roundings of sums of one sign.
    ASSERT_NEAR(found.at(0, n), wanted.at(0, n), 0x1p-7 * std::abs(wanted.at(0, n)));
  }
  if (GetParam().weight == DType::kQ8C) {
    expect_same_bits(found.view(), wanted.view(), "one sum");
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, QuantizedTest, testing::ValuesIn(quantized_kernels()), kernel_name);

TEST(QuantizedRowsTest, EmbeddingsAreCodesTimesScalesBitForBit) {
  const int32_t tokens[] = {0, 5, 2, 5};
  for (const KernelEntry& kernel : kernels_of(Op::kEmbed)) {
    for (const int64_t cols : {1, 31, 32, 33, 64, 129, 300}) {
      const Weights weight = Weights::random(6, cols, 1, kernel.weight);
      std::vector<std::byte> packed = weight.pack(kernel);
      StepView step;
      step.rows = 4;
      step.tokens = tokens;
      Matrix found(4, cols), wanted(4, cols);
      KernelArgs args;
      args.in[0] = weight.view();
      args.attrs = EmbedAttrs{};
      args.step = &step;
      args.out[0] = wanted.view();
      reference::kernel(Op::kEmbed)(args);
      args.out[0] = found.view();
      args.in[0].data = packed.data();
      run(kernel, args, 2);
      expect_same_bits(found.view(), wanted.view(), kernel.name);
    }
  }
}

}  // namespace
}  // namespace lockstep
