// SPDX-License-Identifier: Apache-2.0
// Workers whose kernels promise different bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

TEST(MixedWorkersTest, WorkersWithoutACommonNumericClassAreRefusedAndTheOthersGoOn) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster.join();
  cluster::Hello gpu = VirtualCluster::default_hello();
  gpu.set_device("cuda 0000:01:00.0");
  gpu.set_numeric_class("cuda.exact.v1");
  cluster.want_group();
  const LinkId odd = cluster.join(gpu);
  EXPECT_THAT(cluster.worker(odd).refusal(), HasSubstr("cuda.exact.v1"));
  EXPECT_FALSE(cluster.worker(odd).open);
  cluster::Hello amx = VirtualCluster::default_hello();
  amx.set_numeric_class("amx.v1");
  cluster.join(amx);
  ASSERT_TRUE(cluster.formed());
  EXPECT_EQ(cluster.info().numeric_class, "f32.v1");  // Both workers support this class.
  EXPECT_EQ(cluster.impossible(), "");
}

TEST(MixedWorkersTest, GpusOfTwoKindsFormNoGroupAndTheRefusalNamesBoth) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster::Hello gpu = VirtualCluster::default_hello();
  gpu.set_device("cuda 0000:01:00.0");
  gpu.set_numeric_class("cuda.exact.v1@sm_90x132.cublas_13.1.0");
  cluster.join(gpu);
  cluster.want_group();
  gpu.set_numeric_class("cuda.exact.v1@sm_80x108.cublas_13.1.0");
  const LinkId odd = cluster.join(gpu);
  EXPECT_THAT(cluster.worker(odd).refusal(), HasSubstr("cuda.exact.v1@sm_80x108.cublas_13.1.0"));
  EXPECT_THAT(cluster.worker(odd).refusal(), HasSubstr("cuda.exact.v1@sm_90x132.cublas_13.1.0"));
}

}  // namespace
}  // namespace lockstep::testing
