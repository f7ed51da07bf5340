// SPDX-License-Identifier: Apache-2.0
// Functions of single numbers at hard inputs: near zero, at the ends of the range, NaN.
#include <cmath>

#include "base/numbers/math.h"
#include "tests/worker/kernels/weights_case.h"

namespace lockstep {
namespace {

TEST(ElementwiseTest, SiluIsRightAtTheEndsOfTheRange) {
  const float inputs[] = {-1e30f, -200, -100, -88, -87, -1e-8f, 0, 1e-30f, 20, 88, 100, 1e30f};
  const double wanted[] = {0, 0, -3.7e-42, -5.3e-37, -1.4e-36, -5e-9, 0, 5e-31, 20, 88, 100, 1e30};
  for (const KernelEntry& kernel : kernels_of(Op::kMap)) {
    Matrix x(1, 12), y(1, 12);
    std::copy(std::begin(inputs), std::end(inputs), x.view().row<float>(0));
    KernelArgs args;
    args.attrs = map_attrs(Function::kSilu);
    args.in[0] = x.view();
    args.out[0] = y.view();
    run(kernel, args);
    for (int64_t i = 0; i < 12; ++i) {
      EXPECT_NEAR(y.at(0, i), wanted[i], 1e-6 * std::abs(wanted[i]) + 1e-35) << inputs[i];
    }
  }
}

// The error in units in the last place of a float32 at `wanted`.
double ulps(float found, double wanted) {
  const auto nearest = static_cast<float>(std::abs(wanted));
  const double unit = static_cast<double>(std::nextafterf(nearest, HUGE_VALF)) - double{nearest};
  return std::abs(found - wanted) / unit;
}

float mapped(const KernelEntry& kernel, Function function, float x) {
  Matrix in(1, 1), out(1, 1);
  *in.view().row<float>(0) = x;
  KernelArgs args;
  args.attrs = map_attrs(function);
  args.in[0] = in.view();
  args.out[0] = out.view();
  run(kernel, args);
  return out.at(0, 0);
}

TEST(ElementwiseTest, TanhIsWithinTwoUnitsOfTheLastPlace) {
  constexpr int64_t kCount = 40000;
  Matrix x(1, kCount), y(1, kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    const float size = std::pow(10.0f, static_cast<float>(i % 20000) / 2000.0f - 8.0f);
    x.view().row<float>(0)[i] = i < 20000 ? size : -size;
  }
  const KernelEntry kernel = kernels_of(Op::kMap).front();
  KernelArgs args;
  args.attrs = map_attrs(Function::kTanh);
  args.in[0] = x.view();
  args.out[0] = y.view();
  run(kernel, args);
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_LE(ulps(y.at(0, i), std::tanh(double{x.at(0, i)})), 2.0) << x.at(0, i);
  }
}

TEST(ElementwiseTest, FunctionsAreRightAtTheEndsOfTheRangeAndKeepNan) {
  for (const KernelEntry& kernel : kernels_of(Op::kMap)) {
    EXPECT_EQ(mapped(kernel, Function::kTanh, HUGE_VALF), 1.0f);
    EXPECT_EQ(mapped(kernel, Function::kTanh, -1e30f), -1.0f);
    EXPECT_EQ(mapped(kernel, Function::kCap, 1e30f), 0.7f);
    EXPECT_EQ(mapped(kernel, Function::kClamp, -1e30f), -0.7f);
    EXPECT_EQ(mapped(kernel, Function::kClampAbove, -1e30f), -1e30f);
    EXPECT_EQ(mapped(kernel, Function::kClampAbove, 1e30f), 0.7f);
    EXPECT_EQ(mapped(kernel, Function::kSigmoid, 1e30f), 1.0f);
    EXPECT_EQ(mapped(kernel, Function::kSigmoid, -1e30f), 0.0f);
    EXPECT_EQ(mapped(kernel, Function::kGelu, 1e30f), 1e30f);
    EXPECT_EQ(mapped(kernel, Function::kGelu, -1e30f), 0.0f);
    EXPECT_EQ(mapped(kernel, Function::kGeluTanh, 1e30f), 1e30f);
    EXPECT_EQ(mapped(kernel, Function::kGeluTanh, -1e30f), 0.0f);
    EXPECT_EQ(mapped(kernel, Function::kRelu, -1e30f), 0.0f);
    for (int i = 1; i < kFunctionCount; ++i) {
      EXPECT_TRUE(std::isnan(mapped(kernel, static_cast<Function>(i), std::nanf("")))) << i;
    }
  }
}

TEST(CastTest, ACastRoundsToNearestEvenAndKeepsNan) {
  const float values[] = {1.0f + 0x1p-8f, 1.0f + 0x3p-8f, std::nanf(""), HUGE_VALF, -0.0f, 3e38f};
  for (const KernelEntry& kernel : kernels_of(Op::kCast)) {
    Matrix x(1, 6), y(1, 6, DType::kBF16);
    std::copy(std::begin(values), std::end(values), x.view().row<float>(0));
    KernelArgs args;
    args.in[0] = x.view();
    args.out[0] = y.view();
    run(kernel, args);
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(y.view().row<uint16_t>(0)[i], float_to_bf16(values[i])) << values[i];
    }
  }
}

}  // namespace
}  // namespace lockstep
