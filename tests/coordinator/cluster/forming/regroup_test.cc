// SPDX-License-Identifier: Apache-2.0
// Recovery after a loss: a spare, the old worker, a group of fewer ranks, and a larger one later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

cluster::Hello spare() {
  cluster::Hello hello = VirtualCluster::default_hello();
  hello.set_spare(true);
  return hello;
}

cluster::Hello of_class(const std::string& numeric_class) {
  cluster::Hello hello = VirtualCluster::default_hello();
  hello.set_numeric_class(numeric_class);
  return hello;
}

// Three workers; a group needs at least one.
class RegroupTest : public ::testing::Test {
 protected:
  static ClusterCoreOptions options() {
    ClusterCoreOptions options = VirtualCluster::default_options();
    options.workers = 3;
    options.min_workers = 1;
    options.grace_ms = 1'500;
    options.regrow_ms = 60'000;
    return options;
  }
  void form(const cluster::Hello& hello = VirtualCluster::default_hello()) {
    for (LinkId& link : links_) link = cluster_.join(hello);
    cluster_.want_group();
    ASSERT_TRUE(cluster_.formed());
    ASSERT_EQ(cluster_.info().ranks, 3);
  }
  void note_demand(Demand demand) {
    cluster_.core().note_demand(cluster_.now(), demand);
    cluster_.settle();
  }
  // Loses a rank that does not come back; the others form a group.
  void lose_one() {
    cluster_.hang_up(links_[1]);
    cluster_.want_group();
    cluster_.pass(1'500);
    ASSERT_TRUE(cluster_.formed());
    ASSERT_EQ(cluster_.info().ranks, 2);
  }

  VirtualCluster cluster_{options()};
  LinkId links_[3] = {};
};

TEST_F(RegroupTest, TheFirstGroupWaitsForAllWorkers) {
  cluster_.want_group();
  cluster_.join();
  cluster_.join();
  cluster_.pass(600'000);
  EXPECT_FALSE(cluster_.formed());
  cluster_.join();
  EXPECT_TRUE(cluster_.formed());
}

TEST_F(RegroupTest, AGroupOfFewerRanksFormsAfterTheGracePeriod) {
  form();
  cluster_.hang_up(links_[1]);
  cluster_.want_group();
  cluster_.pass(1'450);
  EXPECT_FALSE(cluster_.formed());
  cluster_.pass(50);
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.info().ranks, 2);
  EXPECT_EQ(cluster_.worker(links_[0]).assignment().program().ranks(), 2);
  EXPECT_THAT(cluster_.log(), HasSubstr("2 of 3 ranks load"));
}

TEST_F(RegroupTest, AWorkerThatComesBackWithinTheGracePeriodIsUsedAtOnce) {
  form();
  cluster_.hang_up(links_[1]);
  cluster_.want_group();
  cluster_.pass(1'400);
  cluster_.join();
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.info().ranks, 3);
}

TEST_F(RegroupTest, AWorkerThatIsLostWhileItLoadsHasAGracePeriodToo) {
  form();
  cluster_.hang_up(links_[1]);
  cluster_.want_group();
  cluster_.pass(1'400);
  const LinkId loading = cluster_.join(VirtualCluster::default_hello(), {.loads = false});
  cluster_.pass(5'000);
  cluster_.hang_up(loading);
  cluster_.pass(1'400);
  EXPECT_FALSE(cluster_.formed());
  cluster_.pass(100);
  EXPECT_EQ(cluster_.info().ranks, 2);
}

TEST_F(RegroupTest, WorkersThatDieWhileLoadingDoNotDelayTheOthersForever) {
  form();
  cluster_.hang_up(links_[1]);
  cluster_.want_group();
  for (int death = 0; death < 10 && !cluster_.formed(); ++death) {
    cluster_.pass(1'000);
    if (!cluster_.formed()) {
      cluster_.hang_up(cluster_.join(VirtualCluster::default_hello(), {.loads = false}));
    }
  }
  cluster_.pass(200);
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.info().ranks, 2);
  EXPECT_LE(cluster_.now(), 1'000'000 + 5'000);
}

TEST_F(RegroupTest, ASpareReplacesALostRankAtOnce) {
  form();
  const LinkId idle = cluster_.join(spare());
  cluster_.hang_up(links_[1]);
  cluster_.want_group();
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.info().ranks, 3);
  EXPECT_EQ(cluster_.worker(idle).assignment().program().rank(), 1);
}

TEST_F(RegroupTest, ASpareIsNotUsedWhileThereAreEnoughOthers) {
  cluster_.want_group();
  const LinkId idle = cluster_.join(spare());
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(cluster_.formed());
    cluster_.join();
  }
  EXPECT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.worker(idle).epoch, 0u);
  note_demand(Demand::kNone);
  cluster_.pass(600'000);
  EXPECT_EQ(cluster_.lost(), "");  // A group that has all ranks does not grow.
}

TEST_F(RegroupTest, ASpareCompletesTheFirstGroupIfNoOtherWorkerJoins) {
  cluster_.want_group();
  cluster_.join(spare());
  cluster_.join();
  cluster_.join();
  EXPECT_FALSE(cluster_.formed());
  cluster_.pass(1'500);
  EXPECT_TRUE(cluster_.formed());
}

TEST_F(RegroupTest, ASpareThatGotARankIsNoLongerASpare) {
  form();
  const LinkId idle = cluster_.join(spare());
  cluster_.hang_up(links_[1]);
  cluster_.want_group();
  cluster_.join();  // The old worker comes back, and waits without a rank.
  cluster_.hang_up(links_[0]);
  cluster_.want_group();
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.worker(idle).assignment().program().rank(), 1);  // It has rank 1's weights.
}

TEST_F(RegroupTest, FewerThanMinWorkersFormNoGroup) {
  ClusterCoreOptions min = options();
  min.min_workers = 2;
  VirtualCluster cluster(min);
  LinkId links[3];
  for (LinkId& link : links) link = cluster.join();
  cluster.want_group();
  cluster.hang_up(links[0]);
  cluster.hang_up(links[1]);
  cluster.want_group();
  cluster.pass(60'000);
  EXPECT_FALSE(cluster.formed());
  cluster.join();
  EXPECT_TRUE(cluster.formed());
  EXPECT_EQ(cluster.info().ranks, 2);
}

TEST_F(RegroupTest, AModelThatDoesNotFitOnFewerRanksWaitsForMore) {
  form();
  cluster_.hang_up(links_[1]);
  cluster_.worker(links_[0]).failure = failure_of(absl::StatusCode::kResourceExhausted);
  cluster_.want_group();
  cluster_.pass(1'600);
  EXPECT_EQ(cluster_.worker(links_[0]).assignment().program().ranks(), 2);
  const uint64_t tries = cluster_.worker(links_[0]).epoch;
  cluster_.pass(30'000);
  EXPECT_FALSE(cluster_.formed());
  EXPECT_EQ(cluster_.worker(links_[0]).epoch, tries);  // No load is tried again in a loop.
  EXPECT_EQ(cluster_.impossible(), "");
  cluster_.join();
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.info().ranks, 3);
}

TEST_F(RegroupTest, AModelThatDidNotFitIsTriedAgainAfterAMinute) {
  form();
  cluster_.hang_up(links_[1]);
  cluster_.worker(links_[0]).failure = failure_of(absl::StatusCode::kResourceExhausted);
  cluster_.want_group();
  cluster_.pass(63'000);  // Another process may have freed memory.
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.info().ranks, 2);
}

TEST_F(RegroupTest, ARankCountThatCannotBeCompiledIsSkipped) {
  ClusterCoreOptions odd = options();
  odd.compile = [compile = odd.compile](const std::vector<WorkerFacts>& workers)
      -> absl::StatusOr<std::vector<program::Program>> {
    if (workers.size() == 2) return invalid_argument("not on 2");
    return compile(workers);
  };
  VirtualCluster cluster(odd);
  LinkId links[3];
  for (LinkId& link : links) link = cluster.join();
  cluster.want_group();
  cluster.hang_up(links[0]);
  cluster.want_group();
  cluster.pass(1'700);
  ASSERT_TRUE(cluster.formed());
  EXPECT_EQ(cluster.info().ranks, 1);
}

TEST_F(RegroupTest, AWorkerThatFailsThreeTimesIsLeftOut) {
  form();
  cluster_.worker(links_[1]).failure = failure_of(absl::StatusCode::kInternal);
  cluster_.step(1);
  cluster_.worker(links_[1]).failure = failure_of(absl::StatusCode::kInternal);
  cluster_.want_group();
  for (int i = 0; i < 100 && !cluster_.formed(); ++i) {
    cluster_.worker(links_[1]).failure = failure_of(absl::StatusCode::kInternal);
    cluster_.pass(50);
  }
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.info().ranks, 2);
  EXPECT_TRUE(cluster_.worker(links_[1]).open);
  // A minute later the worker is tried again if no request runs.
  cluster_.worker(links_[1]).failure.reset();
  note_demand(Demand::kRuns);
  cluster_.pass(120'000);
  EXPECT_EQ(cluster_.lost(), "");
  note_demand(Demand::kNone);
  cluster_.want_group();
  cluster_.pass(200);
  EXPECT_EQ(cluster_.info().ranks, 3);
}

// ---- A group grows again ----

TEST_F(RegroupTest, AGroupGrowsAtOnceWhenNoRequestRuns) {
  form();
  lose_one();
  note_demand(Demand::kNone);
  cluster_.join();
  EXPECT_EQ(cluster_.lost(), "the group grows to 3 ranks");
  cluster_.want_group();
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.info().ranks, 3);
}

TEST_F(RegroupTest, AGroupWithRequestsGrowsAMinuteAfterTheWorkerJoined) {
  form();
  lose_one();
  note_demand(Demand::kRuns);
  cluster_.join();
  cluster_.pass(59'900);
  EXPECT_EQ(cluster_.lost(), "");
  cluster_.pass(200);
  EXPECT_EQ(cluster_.lost(), "the group grows to 3 ranks");
}

TEST_F(RegroupTest, AGroupGrowsWhenAllRemainingRequestsWaitForALargerOne) {
  form();
  lose_one();
  note_demand(Demand::kRuns);
  cluster_.join();
  cluster_.pass(5'000);
  note_demand(Demand::kLarger);
  EXPECT_EQ(cluster_.lost(), "the group grows to 3 ranks");
}

TEST_F(RegroupTest, WorkersThatReturnOneAfterAnotherAreUsedTogether) {
  form();
  cluster_.hang_up(links_[1]);
  cluster_.hang_up(links_[2]);
  cluster_.want_group();
  cluster_.pass(1'500);
  ASSERT_EQ(cluster_.info().ranks, 1);
  note_demand(Demand::kNone);
  cluster_.join();
  cluster_.pass(1'000);
  EXPECT_EQ(cluster_.lost(), "");
  cluster_.join();
  EXPECT_EQ(cluster_.lost(), "the group grows to 3 ranks");
}

TEST_F(RegroupTest, AGroupThatCannotGrowIsNotRetriedInALoop) {
  form();
  lose_one();
  note_demand(Demand::kNone);
  const LinkId bad = cluster_.join(VirtualCluster::default_hello(),
                                   {.failure = failure_of(absl::StatusCode::kInternal)});
  cluster_.want_group();
  cluster_.pass(200);
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.info().ranks, 2);
  const uint64_t tries = cluster_.worker(bad).epoch;
  cluster_.pass(50'000);
  EXPECT_EQ(cluster_.lost(), "");
  EXPECT_EQ(cluster_.worker(bad).epoch, tries);
}

TEST_F(RegroupTest, AWorkerThatDiesInEveryGroupItJoinsIsTriedOncePerMinute) {
  form();
  lose_one();
  note_demand(Demand::kNone);
  int groups = 0;
  for (const int64_t end = cluster_.now() + 180'000; cluster_.now() < end;) {
    const LinkId bad = cluster_.join();
    if (cluster_.lost() == "the group grows to 3 ranks") {
      ++groups;
      cluster_.want_group();
    }
    cluster_.hang_up(bad);
    if (!cluster_.lost().empty()) cluster_.want_group();
    cluster_.pass(2'000);
    ASSERT_TRUE(cluster_.formed());
  }
  EXPECT_GE(groups, 2);
  EXPECT_LE(groups, 4);
}

// ---- Numeric classes ----

TEST_F(RegroupTest, RequestsKeepTheirClassIfAllWorkersSupportIt) {
  form(of_class("amx.v1"));
  EXPECT_EQ(cluster_.info().numeric_class, "amx.v1");
  cluster_.hang_up(links_[1]);
  cluster_.want_group({.numeric_class = "f32.v1"});
  cluster_.join(of_class("amx.v1"));
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.info().numeric_class, "f32.v1");
}

TEST_F(RegroupTest, RequestsKeepTheirClassThoughAnotherClassAllowsALargerGroup) {
  form(of_class("amx.v1"));
  cluster_.hang_up(links_[1]);
  cluster_.want_group({.numeric_class = "amx.v1"});
  const LinkId other = cluster_.join(of_class("f32.v1"));
  EXPECT_FALSE(cluster_.formed());  // The group waits for a worker of the requests' class.
  cluster_.pass(1'500);
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.info().numeric_class, "amx.v1");
  EXPECT_EQ(cluster_.info().ranks, 2);
  note_demand(Demand::kRuns);
  cluster_.pass(120'000);
  EXPECT_EQ(cluster_.lost(), "");  // The requests cannot continue in another class.
  note_demand(Demand::kNone);
  EXPECT_EQ(cluster_.lost(), "the group grows to 3 ranks");
  cluster_.want_group();
  EXPECT_EQ(cluster_.info().numeric_class, "f32.v1");
  EXPECT_EQ(cluster_.worker(other).epoch, cluster_.info().epoch);
}

TEST_F(RegroupTest, AClassThatAllSupportIsUsedAfterTheGracePeriodIfTheRequestsClassIsGone) {
  ClusterCoreOptions all = options();
  all.min_workers = 3;
  VirtualCluster cluster(all);
  LinkId links[3];
  for (LinkId& link : links) link = cluster.join(of_class("amx.v1"));
  cluster.want_group();
  cluster.hang_up(links[0]);
  cluster.want_group({.numeric_class = "amx.v1"});
  cluster.join(of_class("f32.v1"));
  cluster.pass(1'450);
  EXPECT_FALSE(cluster.formed());
  cluster.pass(50);
  ASSERT_TRUE(cluster.formed());
  EXPECT_EQ(cluster.info().numeric_class, "f32.v1");
  EXPECT_THAT(cluster.log(), Not(HasSubstr("of 3 ranks load")));
}

}  // namespace
}  // namespace lockstep::testing
