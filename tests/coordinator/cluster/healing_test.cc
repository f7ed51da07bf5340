// SPDX-License-Identifier: Apache-2.0
// After a first group was formed, no error ends the server. Before that, an error ends the server
// if a retry would only repeat the error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/status.h"
#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::StatusCode kPermanent[] = {
    absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition,
    absl::StatusCode::kResourceExhausted, absl::StatusCode::kNotFound, absl::StatusCode::kInternal};

// Forms a group of two, which loses its second worker to this error.
LinkId lose_second(absl::StatusCode code, VirtualCluster& cluster) {
  cluster.join();
  const LinkId second = cluster.join();
  cluster.want_group();
  cluster.worker(second).failure = failure_of(code);
  cluster.step(1);
  EXPECT_EQ(cluster.lost(), "rank 1: it went wrong");
  return second;
}

TEST(HealingTest, AnErrorThatARetryWouldRepeatIsHopelessBeforeAFirstGroup) {
  for (const absl::StatusCode code : kPermanent) {
    VirtualCluster cluster(VirtualCluster::default_options());
    cluster.join();
    cluster.join(VirtualCluster::default_hello(), {.failure = failure_of(code)});
    cluster.want_group();
    EXPECT_EQ(cluster.impossible(), "rank 1: it went wrong");
    cluster.pass(10'000);
    EXPECT_FALSE(cluster.formed());
  }
}

TEST(HealingTest, NoErrorIsPermanentAfterAFirstGroup) {
  for (const absl::StatusCode code : kPermanent) {
    VirtualCluster cluster(VirtualCluster::default_options());
    const LinkId second = lose_second(code, cluster);
    cluster.worker(second).failure = failure_of(code);  // This worker fails again while it loads.
    cluster.want_group();
    EXPECT_FALSE(cluster.formed());
    EXPECT_EQ(cluster.impossible(), "");
    EXPECT_THAT(cluster.log(), HasSubstr("no group yet: rank 1: it went wrong"));
    cluster.pass(200);
    EXPECT_TRUE(cluster.formed());
  }
}

// The codes kAborted and kDeadlineExceeded say that no rank is at fault. If a worker could say so,
// a step that it always ends with such a code would be retried forever.
TEST(HealingTest, OnlyTheCoordinatorMaySayThatNoRankIsAtFault) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kAborted, absl::StatusCode::kDeadlineExceeded}) {
    VirtualCluster cluster(VirtualCluster::default_options());
    lose_second(code, cluster);
    EXPECT_EQ(cluster.lost_code(), absl::StatusCode::kUnavailable);
  }
}

TEST(HealingTest, AModelThatCannotBeCompiledIsHopelessAtFirstAndRetriedLater) {
  bool compiles = false;
  ClusterCoreOptions options = VirtualCluster::default_options();
  const auto compile = options.compile;
  options.compile = [&](const std::vector<WorkerFacts>& workers)
      -> absl::StatusOr<std::vector<program::Program>> {
    if (!compiles) return invalid_argument("too few heads");
    return compile(workers);
  };
  {
    VirtualCluster cluster(options);
    cluster.join();
    cluster.join();
    cluster.want_group();
    EXPECT_EQ(cluster.impossible(), "too few heads");
  }
  compiles = true;
  VirtualCluster cluster(options);
  const LinkId first = cluster.join();
  cluster.join();
  cluster.want_group();
  cluster.hang_up(first);
  compiles = false;
  cluster.want_group();
  cluster.join();
  cluster.pass(5'000);
  EXPECT_EQ(cluster.impossible(), "");
  compiles = true;
  cluster.pass(5'000);
  EXPECT_TRUE(cluster.formed());
}

TEST(HealingTest, FormingIsRetriedWithGrowingDelaysAndAtOnceForANewWorker) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster.join();
  const LinkId second = cluster.join();
  cluster.want_group();
  cluster.hang_up(second);
  cluster.want_group();
  const LinkId bad = cluster.join(VirtualCluster::default_hello(),
                                  {.failure = failure_of(absl::StatusCode::kUnavailable)});
  uint64_t tries = 0;
  int64_t longest = 0;
  for (int64_t last = cluster.now(); cluster.now() < 1'000'000 + 600'000;) {
    cluster.worker(bad).failure = failure_of(absl::StatusCode::kUnavailable);
    cluster.pass(50);
    if (cluster.worker(bad).epoch == tries) continue;
    tries = cluster.worker(bad).epoch;
    longest = std::max(longest, cluster.now() - last);
    last = cluster.now();
  }
  EXPECT_GT(tries, 150u);  // Retries have no limit,
  EXPECT_LT(tries, 250u);  // but a growing delay.
  EXPECT_LE(longest, 3'100);
  const LinkId good = cluster.join();
  EXPECT_TRUE(cluster.formed());
  EXPECT_EQ(cluster.worker(good).assignment().program().rank(), 1);  // The bad worker has no rank.
}

TEST(HealingTest, AWorkerOfAnotherHostIsRefusedByNameAndTheOthersGoOn) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = cluster.join();
  const LinkId second = cluster.join();
  cluster.want_group();
  cluster.hang_up(first);
  cluster.want_group();
  cluster::Hello elsewhere = VirtualCluster::default_hello();
  elsewhere.set_host("elsewhere");
  const LinkId stranger = cluster.join(elsewhere);
  EXPECT_THAT(cluster.worker(stranger).refusal(), HasSubstr("on another host"));
  EXPECT_THAT(cluster.log(), HasSubstr("refused a worker (pid 103): it is on another host"));
  EXPECT_TRUE(cluster.worker(second).open);
  cluster.join();
  EXPECT_TRUE(cluster.formed());
}

TEST(HealingTest, AMajorityOfIncompatibleWorkersDoesNotReplaceASurvivor) {
  ClusterCoreOptions options = VirtualCluster::default_options();
  options.workers = 3;
  VirtualCluster cluster(options);
  const LinkId survivor = cluster.join();
  const LinkId second = cluster.join();
  const LinkId third = cluster.join();
  cluster.want_group();
  ASSERT_TRUE(cluster.formed());
  cluster.hang_up(second);
  cluster.hang_up(third);
  cluster.want_group();
  cluster::Hello elsewhere = VirtualCluster::default_hello();
  elsewhere.set_host("elsewhere");
  const LinkId stranger = cluster.join(elsewhere);
  cluster.join(elsewhere);
  EXPECT_NE(cluster.worker(stranger).refusal(), "");
  EXPECT_TRUE(cluster.worker(survivor).open);
  cluster.join();
  cluster.join();
  EXPECT_TRUE(cluster.formed());
}

TEST(HealingTest, AnIncompatibleWorkerDoesNotDisturbAGroup) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster.join();
  cluster.join();
  cluster.want_group();
  cluster::Hello elsewhere = VirtualCluster::default_hello();
  elsewhere.set_host("elsewhere");
  EXPECT_NE(cluster.worker(cluster.join(elsewhere)).refusal(), "");
  const LinkId spare = cluster.join();
  EXPECT_EQ(cluster.worker(spare).refusal(), "");
  cluster.step(1);
  EXPECT_TRUE(cluster.replied());
  EXPECT_EQ(cluster.lost(), "");
}

TEST(HealingTest, APeersDeathIsNotTheFaultOfTheRankThatReportsIt) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster.join();
  const LinkId second = cluster.join();
  cluster.want_group();
  cluster::Failure failure = failure_of(absl::StatusCode::kUnavailable);
  failure.set_peer_lost(true);
  cluster.worker(second).failure = failure;
  cluster.step(1);
  EXPECT_THAT(cluster.lost(), HasSubstr("rank 1 could not continue"));
  EXPECT_TRUE(cluster.worker(second).open);
}

TEST(HealingTest, AHundredRefusalsAreLoggedInOneLinePerSecond) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster::Hello hello = VirtualCluster::default_hello();
  hello.set_protocol(77);
  for (int i = 0; i < 100; ++i) cluster.join(hello);
  EXPECT_EQ(std::count(cluster.log().begin(), cluster.log().end(), '\n'), 1);
  cluster.pass(1'000);
  cluster.join(hello);
  EXPECT_THAT(cluster.log(), HasSubstr("and 99 others"));
}

}  // namespace
}  // namespace lockstep::testing
