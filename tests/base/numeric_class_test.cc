// SPDX-License-Identifier: Apache-2.0
#include "base/numeric_class.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(NumericClassTest, ProcessorsHaveOneInCommonAndOthersOnlyTheirOwn) {
  EXPECT_EQ(common_class(kCpuClass, kCpuClass), kCpuClass);
  EXPECT_EQ(common_class(kAmxClass, kAmxClass), kAmxClass);
  EXPECT_EQ(common_class(kAmxClass, kCpuClass), kCpuClass);
  EXPECT_EQ(common_class(kCpuClass, kAmxClass), kCpuClass);
  EXPECT_EQ(common_class(kCudaClass, kCudaClass), kCudaClass);
  EXPECT_EQ(common_class(kCudaClass, kCpuClass), std::nullopt);
  EXPECT_EQ(common_class("", kCpuClass), std::nullopt);
}

}  // namespace
}  // namespace lockstep
