// SPDX-License-Identifier: Apache-2.0
// All ranks compute each linear with one kernel that all of them have proven.
#include "coordinator/cluster/forming/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LinkId join(VirtualCluster& cluster, std::vector<std::vector<std::string>> kernels) {
  return cluster.join(VirtualCluster::default_hello(), {.kernels = std::move(kernels)});
}

TEST(KernelsTest, RanksThatChoseTheSameKernelsLoadOnce) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = join(cluster, {{"mma", "plain"}, {"plain"}});
  join(cluster, {{"mma", "plain"}, {"plain"}});
  cluster.want_group();
  ASSERT_TRUE(cluster.formed());
  EXPECT_EQ(cluster.info().epoch, 1u);
  EXPECT_EQ(cluster.info().kernels, digest_of({"mma", "plain"}));
  EXPECT_EQ(cluster.worker(first).assignment().kernels_size(), 0);
}

TEST(KernelsTest, RanksThatChoseDifferentKernelsAreAssignedOnesThatAllHaveProven) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = join(cluster, {{"mma", "plain"}, {"mma", "lt", "plain"}});
  const LinkId second = join(cluster, {{"plain"}, {"lt", "mma", "plain"}});
  cluster.want_group();
  ASSERT_TRUE(cluster.formed());
  EXPECT_EQ(cluster.info().epoch, 2u);
  EXPECT_EQ(cluster.info().kernels, digest_of({"plain", "mma"}));
  for (const LinkId link : {first, second}) {
    EXPECT_THAT(cluster.worker(link).assignment().kernels(), ElementsAre("plain", "mma"));
    EXPECT_FALSE(cluster.worker(link).assignment().reload());
  }
  EXPECT_THAT(cluster.log(), HasSubstr("the ranks chose different kernels"));
}

TEST(KernelsTest, RanksThatCannotUseTheSameKernelsFormNoGroup) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = join(cluster, {{"mma", "plain"}});
  const LinkId second = join(cluster, {{"plain"}});
  cluster.worker(first).obeys = false;
  cluster.want_group();
  EXPECT_FALSE(cluster.formed());
  EXPECT_THAT(cluster.log(), HasSubstr("uses other kernels than those assigned"));
  cluster.worker(first).kernels = {{"mma"}};
  cluster.pass(5'000);
  EXPECT_THAT(cluster.log(), HasSubstr("linear 0: ranks 0 and 1 have no proven kernel in common: "
                                       "mma; plain"));
  cluster.worker(first).kernels = {{"mma"}, {"mma"}};
  cluster.pass(10'000);
  EXPECT_THAT(cluster.log(),
              HasSubstr("rank 1: must have kernels for 2 linears, as rank 0 has, found 1"));
  cluster.worker(second).kernels = {{"mma"}, {"mma"}};
  cluster.pass(10'000);
  EXPECT_TRUE(cluster.formed());
}

TEST(KernelsTest, TheDigestDependsOnEachNameAndItsPosition) {
  EXPECT_EQ(digest_of({}), "");
  EXPECT_EQ(digest_of({"a", "b"}), digest_of({"a", "b"}));
  EXPECT_NE(digest_of({"a", "b"}), digest_of({"b", "a"}));
  EXPECT_NE(digest_of({"a", "b"}), digest_of({"ab"}));
}

}  // namespace
}  // namespace lockstep::testing
