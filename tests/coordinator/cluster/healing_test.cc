// SPDX-License-Identifier: Apache-2.0
// Once a group was formed no error ends the server; before that, one that another try would only
// repeat does. Workers that were started here are started again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/status.h"
#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::StatusCode kPermanent[] = {
    absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition,
    absl::StatusCode::kResourceExhausted, absl::StatusCode::kNotFound, absl::StatusCode::kInternal};

TEST(HealingTest, BeforeAFirstGroupAnErrorThatATryWouldRepeatIsHopeless) {
  for (const absl::StatusCode code : kPermanent) {
    VirtualCluster cluster(VirtualCluster::default_options());
    cluster.join();
    cluster.join(VirtualCluster::default_hello(), {.failure = failure_of(code)});
    cluster.want_group();
    EXPECT_EQ(cluster.hopeless(), "rank 1: it went wrong");
    cluster.pass(10'000);
    EXPECT_FALSE(cluster.formed());
  }
}

TEST(HealingTest, OnceAGroupWasFormedNoErrorIsPermanent) {
  for (const absl::StatusCode code : kPermanent) {
    VirtualCluster cluster(VirtualCluster::default_options());
    cluster.join();
    const LinkId second = cluster.join();
    cluster.want_group();
    cluster.worker(second).failure = failure_of(code);
    cluster.step(1);
    EXPECT_EQ(cluster.lost(), "rank 1: it went wrong");
    cluster.worker(second).failure = failure_of(code);  // And again while it loads.
    cluster.want_group();
    EXPECT_FALSE(cluster.formed());
    EXPECT_EQ(cluster.hopeless(), "");
    EXPECT_THAT(cluster.log(), HasSubstr("no group yet: rank 1: it went wrong"));
    cluster.pass(200);
    EXPECT_TRUE(cluster.formed());
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
    EXPECT_EQ(cluster.hopeless(), "too few heads");
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
  EXPECT_EQ(cluster.hopeless(), "");
  compiles = true;
  cluster.pass(5'000);
  EXPECT_TRUE(cluster.formed());
}

TEST(HealingTest, FormingIsRetriedWithoutLimitEverMoreRarelyAndAtOnceForANewWorker) {
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
  EXPECT_GT(tries, 150u);  // Without limit,
  EXPECT_LT(tries, 250u);  // but not in a circle.
  EXPECT_LE(longest, 3'100);
  const LinkId good = cluster.join();
  EXPECT_TRUE(cluster.formed());
  EXPECT_EQ(cluster.worker(good).assignment().program().rank(), 1);  // Preferred to the bad one.
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

TEST(HealingTest, AMajorityOfStrangersDoesNotReplaceASurvivor) {
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

TEST(HealingTest, AStrangeWorkerDoesNotDisturbAGroup) {
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

TEST(HealingTest, APeersDeathIsNotTheFaultOfWhoReportsIt) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster.join();
  const LinkId second = cluster.join();
  cluster.want_group();
  cluster::Failure failure = failure_of(absl::StatusCode::kUnavailable);
  failure.set_peer_lost(true);
  cluster.worker(second).failure = failure;
  cluster.step(1);
  EXPECT_THAT(cluster.lost(), HasSubstr("rank 1 could not go on"));
  EXPECT_TRUE(cluster.worker(second).open);
}

TEST(HealingTest, AHundredRefusalsAreOneLinePerSecond) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster::Hello hello = VirtualCluster::default_hello();
  hello.set_protocol(77);
  for (int i = 0; i < 100; ++i) cluster.join(hello);
  EXPECT_EQ(std::count(cluster.log().begin(), cluster.log().end(), '\n'), 1);
  cluster.pass(1'000);
  cluster.join(hello);
  EXPECT_THAT(cluster.log(), HasSubstr("and 99 others"));
}

// ---- Processes ----

class LaunchedTest : public ::testing::Test {
 protected:
  LaunchedTest() {
    cluster_.want_group();
    cluster_.pass(50);
  }

  static ClusterCoreOptions options() {
    ClusterCoreOptions options = VirtualCluster::default_options();
    options.launch = true;
    return options;
  }
  static cluster::Hello hello(int index, int pid) {
    cluster::Hello hello = VirtualCluster::default_hello();
    hello.set_preferred_rank(index);
    hello.set_pid(pid);
    return hello;
  }
  LinkId start(int index, int pid) {
    cluster_.process_started(index, pid);
    return cluster_.join(hello(index, pid));
  }
  void form() {
    first_ = start(0, 50);
    second_ = start(1, 51);
    cluster_.take_started();
    ASSERT_TRUE(cluster_.formed());
  }

  VirtualCluster cluster_{options()};
  LinkId first_ = 0;
  LinkId second_ = 0;
};

TEST_F(LaunchedTest, EveryWorkerIsStartedOnce) {
  EXPECT_THAT(cluster_.take_started(), ElementsAre(0, 1));
  cluster_.pass(5'000);
  EXPECT_THAT(cluster_.take_started(), IsEmpty());
}

TEST_F(LaunchedTest, ShutdownEndsTheGroupAndStartsNothingMore) {
  form();
  const std::string before = cluster_.log();
  cluster_.core().shutdown(cluster_.now());
  cluster_.settle();
  EXPECT_EQ(cluster_.lost(), "the cluster was shut down");
  cluster_.hang_up(first_);
  cluster_.process_exited(0, "exit code 0");
  cluster_.want_group();
  cluster_.pass(10'000);
  EXPECT_FALSE(cluster_.formed());
  EXPECT_THAT(cluster_.take_started(), IsEmpty());
  EXPECT_EQ(cluster_.log(), before);  // What ends as it should is no news.
}

TEST_F(LaunchedTest, ADeadWorkerIsStartedAgain) {
  form();
  cluster_.pass(60'000);
  cluster_.hang_up(second_);
  cluster_.process_exited(1, "killed by signal 9");
  EXPECT_THAT(cluster_.log(), HasSubstr("worker 1 (pid 51) ended, killed by signal 9"));
  cluster_.want_group();
  cluster_.pass(50);
  EXPECT_THAT(cluster_.take_started(), ElementsAre(1));
  start(1, 52);
  EXPECT_TRUE(cluster_.formed());
}

TEST_F(LaunchedTest, AWorkerThatDiedIsLostEvenIfItsStreamSeemsOpen) {
  form();
  cluster_.process_exited(1, "killed by signal 9");
  EXPECT_THAT(cluster_.lost(), HasSubstr("rank 1 (pid 51) was lost: its process ended"));
}

TEST_F(LaunchedTest, ASilentWorkerIsKilledAndReplaced) {
  form();
  cluster_.worker(second_).beats = false;
  cluster_.pass(1'500);
  EXPECT_THAT(cluster_.take_killed(), ElementsAre(1));
  EXPECT_THAT(cluster_.take_started(), IsEmpty());  // Not before it is gone.
  cluster_.process_exited(1, "killed by signal 9");
  cluster_.pass(200);
  EXPECT_THAT(cluster_.take_started(), ElementsAre(1));
  EXPECT_THAT(cluster_.take_killed(), IsEmpty());
}

TEST_F(LaunchedTest, StrangersOfAnotherHostDoNotReplaceThemWhileAllAreDead) {
  form();
  cluster_.process_exited(0, "killed by signal 9");
  cluster_.process_exited(1, "killed by signal 9");
  cluster_.want_group();
  cluster::Hello elsewhere = hello(-1, 90);
  elsewhere.set_host("elsewhere");
  EXPECT_THAT(cluster_.worker(cluster_.join(elsewhere)).refusal(), HasSubstr("on another host"));
  EXPECT_THAT(cluster_.worker(cluster_.join(elsewhere)).refusal(), HasSubstr("on another host"));
  cluster_.pass(1'000);
  EXPECT_EQ(cluster_.worker(start(0, 60)).refusal(), "");
  start(1, 61);
  EXPECT_TRUE(cluster_.formed());
}

TEST_F(LaunchedTest, StrangersThatCameFirstMakeNoGroupWithoutThem) {
  cluster::Hello elsewhere = hello(-1, 90);
  elsewhere.set_host("elsewhere");
  const LinkId stranger = cluster_.join(elsewhere);
  cluster_.join(elsewhere);
  EXPECT_FALSE(cluster_.formed());
  start(0, 50);
  start(1, 51);
  EXPECT_TRUE(cluster_.formed());
  EXPECT_THAT(cluster_.worker(stranger).refusal(), HasSubstr("on another host"));
}

TEST_F(LaunchedTest, AWorkerOfSomebodyElseIsOnlyDisconnected) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster.join();
  const LinkId second = cluster.join();
  cluster.want_group();
  cluster.worker(second).beats = false;
  cluster.pass(5'000);
  EXPECT_FALSE(cluster.worker(second).open);
  EXPECT_THAT(cluster.take_killed(), IsEmpty());
}

TEST_F(LaunchedTest, AWorkerWhoseStreamEndedHasASecondToEndByItself) {
  form();
  cluster_.hang_up(second_);
  cluster_.pass(800);
  EXPECT_THAT(cluster_.take_killed(), IsEmpty());
  cluster_.pass(400);
  EXPECT_THAT(cluster_.take_killed(), ElementsAre(1));
}

TEST_F(LaunchedTest, AWorkerThatNeverJoinsIsKilled) {
  cluster_.process_started(0, 50);
  cluster_.process_started(1, 51);
  cluster_.join(hello(0, 50));
  cluster_.pass(9'900);
  EXPECT_THAT(cluster_.take_killed(), IsEmpty());
  cluster_.pass(200);
  EXPECT_THAT(cluster_.take_killed(), ElementsAre(1));
}

TEST_F(LaunchedTest, AWorkerThatJoinsBeforeItIsKnownToHaveStartedIsNotKilled) {
  cluster_.join(hello(0, 50));
  cluster_.process_started(0, 50);
  start(1, 51);
  cluster_.pass(20'000);
  EXPECT_THAT(cluster_.take_killed(), IsEmpty());
}

TEST_F(LaunchedTest, FiveQuickDeathsBeforeAFirstGroupAreHopeless) {
  for (int death = 0; death < 5; ++death) {
    EXPECT_EQ(cluster_.hopeless(), "");
    cluster_.process_started(0, 100 + death);
    cluster_.process_exited(0, "exit code 2");
    cluster_.pass(2'000);
  }
  EXPECT_EQ(cluster_.hopeless(), "worker 0 died 5 times as soon as it started (exit code 2)");
}

TEST_F(LaunchedTest, OnceAGroupWasFormedQuickDeathsOnlyDelayTheNextStart) {
  form();
  cluster_.hang_up(second_);
  cluster_.want_group();
  int64_t longest = 0;
  for (int death = 0; death < 50; ++death) {
    cluster_.process_exited(1, "killed by signal 9");
    const int64_t begin = cluster_.now();
    while (cluster_.take_started().empty()) cluster_.pass(50);
    longest = std::max(longest, cluster_.now() - begin);
    cluster_.process_started(1, 1'000 + death);
  }
  EXPECT_EQ(cluster_.hopeless(), "");
  EXPECT_LE(longest, 5'050);
  EXPECT_GE(longest, 4'000);
  cluster_.join(hello(1, 1'049));
  EXPECT_TRUE(cluster_.formed());
}

TEST_F(LaunchedTest, AProcessThatCannotBeStartedIsTriedAgain) {
  form();
  cluster_.process_exited(1, "killed by signal 9");
  cluster_.pass(500);
  EXPECT_THAT(cluster_.take_started(), ElementsAre(1));
  cluster_.process_exited(1, "could not be started: out of processes");
  cluster_.pass(1'000);
  EXPECT_THAT(cluster_.take_started(), ElementsAre(1));
}

}  // namespace
}  // namespace lockstep::testing
