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

TEST(NumericClassTest, GpusOfTwoKindsOrWithTwoVersionsOfALibraryHaveNoneInCommon) {
  const std::string_view one = "cuda.v1@sm_90x132.cublas_13.1.0";
  EXPECT_EQ(common_class(one, one), one);
  EXPECT_EQ(common_class(one, "cuda.v1@sm_80x108.cublas_13.1.0"), std::nullopt);
  EXPECT_EQ(common_class(one, "cuda.v1@sm_90x132.cublas_13.2.0"), std::nullopt);
  EXPECT_EQ(common_class(one, "cuda.v1@sm_90x132.plain"), std::nullopt);
  EXPECT_TRUE(is_cuda_class(one));
  EXPECT_TRUE(is_cuda_class(kCudaClass));
  EXPECT_FALSE(is_cuda_class(kCpuClass));
  EXPECT_FALSE(is_cuda_class("cuda.v10@sm_90x132.plain"));
}

}  // namespace
}  // namespace lockstep
