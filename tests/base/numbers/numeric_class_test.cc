// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/numeric_class.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(NumericClassTest, CpusShareOneClassAndOtherDevicesHaveTheirOwn) {
  EXPECT_EQ(common_class(kCpuClass, kCpuClass), kCpuClass);
  EXPECT_EQ(common_class(kAmxClass, kAmxClass), kAmxClass);
  EXPECT_EQ(common_class(kAmxClass, kCpuClass), kCpuClass);
  EXPECT_EQ(common_class(kCpuClass, kAmxClass), kCpuClass);
  EXPECT_EQ(common_class(kCudaExactClass, kCudaExactClass), kCudaExactClass);
  EXPECT_EQ(common_class(kCudaExactClass, kCudaFastClass), std::nullopt);
  EXPECT_EQ(common_class(kCudaExactClass, kCpuClass), std::nullopt);
  EXPECT_EQ(common_class("", kCpuClass), std::nullopt);
}

TEST(NumericClassTest, GpusOfTwoKindsOrLibraryVersionsShareNoClass) {
  const std::string_view one = "cuda.exact.v1@sm_90x132.cublas_13.1.0";
  EXPECT_EQ(common_class(one, one), one);
  EXPECT_EQ(common_class(one, "cuda.exact.v1@sm_80x108.cublas_13.1.0"), std::nullopt);
  EXPECT_EQ(common_class(one, "cuda.exact.v1@sm_90x132.cublas_13.2.0"), std::nullopt);
  EXPECT_EQ(common_class(one, "cuda.exact.v1@sm_90x132.plain"), std::nullopt);
  EXPECT_TRUE(is_cuda_class(one));
  EXPECT_FALSE(is_fast_class(one));
  for (const char* fast : {kCudaFastClass, "cuda.fast.v1@sm_90x132.plain"}) {
    EXPECT_TRUE(is_cuda_class(fast) && is_fast_class(fast));
  }
  EXPECT_FALSE(is_cuda_class(kCpuClass));
  EXPECT_FALSE(is_cuda_class("cuda.exact.v10@sm_90x132.plain"));
}

}  // namespace
}  // namespace lockstep
