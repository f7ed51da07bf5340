// SPDX-License-Identifier: Apache-2.0
// Workers that report that they were asked to end: the effect on their group, and what the next
// group reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

cluster::WorkerMessage goodbye() {
  cluster::WorkerMessage message;
  message.mutable_goodbye();
  return message;
}

// Three workers that the coordinator did not start.
class GoodbyeTest : public ::testing::Test {
 protected:
  GoodbyeTest() {
    for (LinkId& link : links_) link = cluster_.join(hello());
    cluster_.want_group();
    EXPECT_TRUE(cluster_.formed());
  }

  static ClusterCoreOptions options() {
    ClusterCoreOptions options = VirtualCluster::default_options();
    options.workers = 3;
    options.min_workers = 1;
    return options;
  }
  static cluster::Hello hello(bool spare = false) {
    cluster::Hello hello = VirtualCluster::default_hello();
    hello.set_data_address("10.0.0.2:50053");
    hello.set_spare(spare);
    return hello;
  }
  // True if the next group reports that it follows a worker that was asked to end.
  bool follows_a_kill() {
    cluster_.want_group();
    while (!cluster_.formed()) cluster_.pass(50);
    return cluster_.info().follows_a_kill;
  }

  VirtualCluster cluster_{options()};
  LinkId links_[3] = {};
};

TEST_F(GoodbyeTest, TheWorkerIsLostAtOnceAndTheNextGroupSaysWhy) {
  cluster_.say(links_[1], goodbye());
  EXPECT_EQ(cluster_.lost(), "rank 1 (pid 102) was lost: its process was asked to end");
  EXPECT_EQ(cluster_.lost_code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(cluster_.worker(links_[1]).open);
  EXPECT_THAT(cluster_.log(), HasSubstr("rank 1 (pid 102) at 10.0.0.2:50053 leaves: its process "
                                        "was asked to end\n"));
  EXPECT_TRUE(follows_a_kill());
  EXPECT_EQ(cluster_.info().ranks, 2);
}

TEST_F(GoodbyeTest, TheEndOfAStreamAloneIsNotAGoodbye) {
  cluster_.hang_up(links_[1]);
  EXPECT_FALSE(follows_a_kill());
}

TEST_F(GoodbyeTest, MessagesAfterAGoodbyeDoNotMakeItCountAgain) {
  cluster_.say(links_[1], goodbye());
  cluster_.say(links_[1], goodbye());
  cluster_.hang_up(links_[1]);
  EXPECT_TRUE(follows_a_kill());
  cluster_.say(links_[1], goodbye());
  cluster_.hang_up(links_[2]);
  EXPECT_FALSE(follows_a_kill());
}

TEST_F(GoodbyeTest, AGoodbyeOfAnotherEpochCounts) {
  cluster::WorkerMessage message = goodbye();
  message.set_epoch(77);
  cluster_.say(links_[1], message);
  EXPECT_TRUE(follows_a_kill());
}

// A peer reported the worker as lost before its Goodbye arrived.
TEST_F(GoodbyeTest, AGoodbyeCountsAfterAPeersFailure) {
  cluster::WorkerMessage failure;
  failure.mutable_failure()->set_code(static_cast<int32_t>(absl::StatusCode::kUnavailable));
  failure.mutable_failure()->set_peer_lost(true);
  cluster_.say(links_[0], failure);
  EXPECT_THAT(cluster_.lost(), HasSubstr("rank 0 could not continue"));
  cluster_.say(links_[1], goodbye());
  EXPECT_TRUE(follows_a_kill());
}

TEST_F(GoodbyeTest, AGoodbyeOfAWorkerThatLoadsDoesNotCountForTheLastGroup) {
  cluster_.hang_up(links_[2]);
  cluster_.pass(2'000);
  const LinkId newcomer = cluster_.join(hello(), {.loads = false});
  cluster_.want_group();
  EXPECT_FALSE(cluster_.formed());
  cluster_.say(newcomer, goodbye());
  EXPECT_THAT(cluster_.log(), HasSubstr("no group yet: rank 2 (pid 104) was lost: its process was "
                                        "asked to end"));
  EXPECT_FALSE(follows_a_kill()) << "it was not in the group that was lost";
}

TEST_F(GoodbyeTest, AWorkerWithoutARankLeavesWithoutDisturbingTheGroup) {
  const LinkId spare = cluster_.join(hello(/*spare=*/true));
  cluster_.pass(kTickMs);
  cluster_.say(spare, goodbye());
  EXPECT_EQ(cluster_.lost(), "");
  EXPECT_FALSE(cluster_.worker(spare).open);
  EXPECT_THAT(cluster_.log(), HasSubstr("a worker (pid 104) at 10.0.0.2:50053 leaves"));
  cluster_.hang_up(links_[0]);
  EXPECT_FALSE(follows_a_kill());
}

TEST_F(GoodbyeTest, AGoodbyeBeforeAHelloIsRefused) {
  const LinkId link = cluster_.open();
  cluster_.say(link, goodbye());
  EXPECT_EQ(cluster_.worker(link).refusal(), "its first message is not a Hello");
  EXPECT_THAT(cluster_.log(), Not(HasSubstr("leaves")));
}

TEST_F(GoodbyeTest, ASpareReplacesAWorkerThatSaidGoodbyeAtOnce) {
  const LinkId spare = cluster_.join(hello(/*spare=*/true));
  cluster_.pass(kTickMs);
  const int rank = cluster_.worker(spare).preload();
  cluster_.say(links_[rank], goodbye());
  const int64_t at = cluster_.now();
  EXPECT_TRUE(follows_a_kill());
  EXPECT_EQ(cluster_.now(), at);
  EXPECT_EQ(cluster_.worker(spare).assignment().program().rank(), rank);
}

// The worker may restart soon. A group of fewer ranks would have to read weights now, and again
// when the worker is back.
TEST_F(GoodbyeTest, AWorkerThatSaidGoodbyeHasTheGracePeriodToComeBack) {
  cluster_.say(links_[1], goodbye());
  cluster_.want_group();
  cluster_.pass(1'400);
  EXPECT_FALSE(cluster_.formed());
  cluster_.join(hello());
  EXPECT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.info().ranks, 3);
}

TEST_F(GoodbyeTest, AGoodbyeAfterShutdownIsNotLogged) {
  cluster_.core().shutdown(cluster_.now());
  const std::string before = cluster_.log();
  cluster_.say(links_[1], goodbye());
  EXPECT_EQ(cluster_.log(), before);
}

// ---- Workers that the coordinator starts: their exit codes are known as well ----

class LaunchedGoodbyeTest : public ::testing::Test {
 protected:
  LaunchedGoodbyeTest() {
    cluster_.want_group();
    cluster_.pass(50);
    start(0, 50);
    second_ = start(1, 51);
    cluster_.take_started();
    EXPECT_TRUE(cluster_.formed());
    cluster_.pass(60'000);
  }

  static ClusterCoreOptions options() {
    ClusterCoreOptions options = VirtualCluster::default_options();
    options.launch = true;
    return options;
  }
  LinkId start(int index, int pid) {
    cluster_.process_started(index, pid);
    cluster::Hello hello = VirtualCluster::default_hello();
    hello.set_preferred_rank(index);
    hello.set_pid(pid);
    return cluster_.join(hello);
  }
  bool follows_a_kill() {
    cluster_.want_group();
    cluster_.pass(50);
    EXPECT_TRUE(cluster_.formed());
    return cluster_.info().follows_a_kill;
  }

  VirtualCluster cluster_{options()};
  LinkId second_ = 0;
};

TEST_F(LaunchedGoodbyeTest, AGoodbyeAndTheExitCodeThatFollowsCountOnce) {
  cluster_.say(second_, goodbye());
  cluster_.process_exited(1, {.how = "exit code 0", .from_outside = true});
  cluster_.pass(50);
  EXPECT_THAT(cluster_.take_started(), ElementsAre(1));
  const LinkId third = start(1, 52);
  EXPECT_TRUE(follows_a_kill());
  cluster_.hang_up(third);
  cluster_.process_exited(1, {.how = "killed by signal 11"});
  cluster_.pass(200);
  start(1, 53);
  EXPECT_FALSE(follows_a_kill());
}

// Before the exit code of the launched worker was known, a worker that the coordinator did not
// start replaced it.
TEST_F(LaunchedGoodbyeTest, AnExitCodeAfterTheNextGroupFormedDoesNotCountForIt) {
  cluster_.join();
  cluster_.say(second_, goodbye());
  EXPECT_TRUE(follows_a_kill());
  cluster_.process_exited(1, {.how = "exit code 0", .from_outside = true});
  cluster_.pass(50);
  start(1, 52);
  cluster_.hang_up(3);
  EXPECT_FALSE(follows_a_kill());
}

TEST_F(LaunchedGoodbyeTest, AWorkerThatSaysGoodbyeAndStaysIsKilledAndRestarted) {
  cluster_.say(second_, goodbye());
  cluster_.pass(900);
  EXPECT_THAT(cluster_.take_killed(), IsEmpty());
  cluster_.pass(200);
  EXPECT_THAT(cluster_.take_killed(), ElementsAre(1));
  cluster_.process_exited(1, {.how = "killed by signal 9", .from_outside = true});
  cluster_.pass(50);
  EXPECT_THAT(cluster_.take_started(), ElementsAre(1));
  start(1, 52);
  EXPECT_TRUE(follows_a_kill());
}

}  // namespace
}  // namespace lockstep::testing
