// SPDX-License-Identifier: Apache-2.0
// The rules by which a worker counts as lost or stuck, and the group as ready.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

// A group of two workers.
class LivenessTest : public ::testing::Test {
 protected:
  LivenessTest() {
    first_ = cluster_.join();
    second_ = cluster_.join();
    cluster_.want_group();
    cluster_.pass(1'000);
  }

  bool ready() { return cluster_.core().ready(cluster_.now()); }

  VirtualCluster cluster_{VirtualCluster::default_options()};
  LinkId first_ = 0;
  LinkId second_ = 0;
};

TEST_F(LivenessTest, AWorkerWhoseStreamEndedIsLostAtOnceAndNamed) {
  cluster_.step(1);
  cluster_.hang_up(second_);
  EXPECT_THAT(cluster_.lost(), HasSubstr("rank 1 (pid 102) was lost"));
  EXPECT_EQ(cluster_.lost_code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(cluster_.worker(first_).received.back().has_abort());
}

TEST_F(LivenessTest, ASilentWorkerIsLostAfterOneSecond) {
  cluster_.worker(second_).beats = false;
  cluster_.pass(900);
  EXPECT_EQ(cluster_.lost(), "");
  cluster_.pass(300);
  EXPECT_THAT(cluster_.lost(), HasSubstr("rank 1 (pid 102) was lost: it sent nothing"));
  EXPECT_EQ(cluster_.lost_code(), absl::StatusCode::kDeadlineExceeded) << "no request is at fault";
  EXPECT_FALSE(cluster_.worker(second_).open);
  EXPECT_TRUE(cluster_.worker(first_).open);
}

TEST_F(LivenessTest, AStepThatMakesProgressHasNoTimeLimit) {
  cluster_.worker(first_).steps = cluster_.worker(second_).steps = false;
  cluster_.worker(second_).advances = true;
  cluster_.worker(first_).waits = true;  // Rank 0 waits for rank 1, which is slow.
  cluster_.step(1);
  cluster_.pass(3'600'000);
  EXPECT_EQ(cluster_.lost(), "");
  EXPECT_TRUE(ready());
}

TEST_F(LivenessTest, OnlyTheRankWithTheLeastProgressIsLost) {
  cluster_.worker(first_).steps = cluster_.worker(second_).steps = false;
  cluster_.worker(first_).progress = 7;
  cluster_.worker(second_).progress = 5;
  cluster_.step(1);
  cluster_.pass(10'000);
  EXPECT_EQ(cluster_.lost(), "");
  cluster_.pass(1'000);
  EXPECT_THAT(cluster_.lost(), HasSubstr("rank 1 (pid 102) was lost: it made no progress"));
  EXPECT_TRUE(cluster_.worker(first_).open);
}

TEST_F(LivenessTest, ARankThatWaitsIsKeptIfBothHaveTheSameProgress) {
  cluster_.worker(first_).steps = cluster_.worker(second_).steps = false;
  cluster_.worker(first_).waits = true;
  cluster_.step(1);
  cluster_.pass(11'000);
  EXPECT_THAT(cluster_.lost(), HasSubstr("rank 1 (pid 102)"));
  EXPECT_TRUE(cluster_.worker(first_).open);
}

TEST_F(LivenessTest, ARankThatWaitsIsNeverLostBeforeOneThatDoesNot) {
  cluster_.worker(first_).steps = cluster_.worker(second_).steps = false;
  cluster_.worker(first_).waits = true;  // Rank 0 has less progress, but waits for rank 1.
  cluster_.worker(second_).progress = 9;
  cluster_.step(1);
  cluster_.pass(11'000);
  EXPECT_THAT(cluster_.lost(), HasSubstr("rank 1 (pid 102)"));
}

TEST_F(LivenessTest, ARankThatHasAnsweredIsNotStuck) {
  cluster_.worker(first_).steps = false;
  cluster_.worker(first_).waits = true;
  cluster_.step(1);
  cluster_.pass(11'000);
  EXPECT_THAT(cluster_.lost(), HasSubstr("rank 0 (pid 101)"));
  EXPECT_TRUE(cluster_.worker(second_).open);
}

TEST_F(LivenessTest, ARankThatWaitedLongHasTimeAfterTheSlowOneAnswered) {
  cluster_.worker(first_).steps = cluster_.worker(second_).steps = false;
  cluster_.worker(second_).advances = true;
  cluster_.worker(first_).waits = true;
  cluster_.step(1);
  cluster_.pass(60'000);
  cluster::WorkerMessage answer;
  answer.mutable_result()->set_step(1);
  cluster_.say(second_, answer);
  cluster_.worker(second_).advances = false;
  cluster_.pass(9'000);
  EXPECT_EQ(cluster_.lost(), "");
  cluster_.pass(2'000);
  EXPECT_THAT(cluster_.lost(), HasSubstr("rank 0 (pid 101) was lost: it made no progress"));
}

TEST_F(LivenessTest, ARankThatWaitedLongHasTimeAfterItStopsWaiting) {
  cluster_.worker(first_).steps = cluster_.worker(second_).steps = false;
  cluster_.worker(second_).advances = true;
  cluster_.worker(first_).waits = true;
  cluster_.step(1);
  cluster_.pass(60'000);
  cluster_.worker(first_).waits = false;  // Now the second rank waits for the first.
  cluster_.worker(second_).waits = true;
  cluster_.pass(9'000);
  EXPECT_EQ(cluster_.lost(), "");
  cluster_.pass(2'000);
  EXPECT_THAT(cluster_.lost(), HasSubstr("rank 0 (pid 101) was lost: it made no progress"));
}

TEST_F(LivenessTest, NoRankIsStuckWithoutWork) {
  cluster_.pass(3'600'000);
  EXPECT_EQ(cluster_.lost(), "");
  EXPECT_TRUE(ready());
}

TEST_F(LivenessTest, ALoadThatMakesProgressHasNoTimeLimitAndAStuckLoadIsFound) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId slow =
      cluster.join(VirtualCluster::default_hello(), {.loads = false, .advances = true});
  cluster.join();
  cluster.want_group();
  cluster.pass(3'600'000);
  EXPECT_TRUE(cluster.worker(slow).open);
  cluster.worker(slow).advances = false;
  cluster.pass(11'000);
  EXPECT_FALSE(cluster.worker(slow).open);
  EXPECT_THAT(cluster.log(), HasSubstr("rank 0 (pid 101) was lost: it made no progress"));
}

TEST_F(LivenessTest, SilenceCountsFromTheEndOfTheCoordinatorsOwnPause) {
  cluster_.worker(first_).steps = cluster_.worker(second_).steps = false;
  cluster_.step(1);
  cluster_.suspend(60'000);
  cluster_.pass(900);
  EXPECT_EQ(cluster_.lost(), "");
  EXPECT_THAT(cluster_.log(), HasSubstr("the coordinator was delayed for 60000 ms"));
  cluster_.worker(second_).beats = false;
  cluster_.pass(1'200);
  EXPECT_THAT(cluster_.lost(), HasSubstr("rank 1 (pid 102)"));
}

TEST_F(LivenessTest, ReadyIsFalseBeforeAGroupIsFormedAndAfterItIsLost) {
  EXPECT_TRUE(ready());
  cluster_.hang_up(first_);
  EXPECT_FALSE(ready());
  cluster_.want_group();
  EXPECT_FALSE(ready());
  const LinkId third = cluster_.join(VirtualCluster::default_hello(), {.loads = false});
  EXPECT_FALSE(ready());
  cluster::WorkerMessage message;
  message.mutable_ready()->set_pages(1);
  message.mutable_ready()->set_contents("checkpoint 1");
  message.mutable_ready()->set_written_at("noon");
  cluster_.say(third, message);
  EXPECT_TRUE(ready());
}

TEST_F(LivenessTest, ReadyIsFalseWhileARankIsSilentOrNoneMakesProgress) {
  ClusterCoreOptions patient = VirtualCluster::default_options();
  patient.silent_ms = 60'000;
  VirtualCluster cluster(patient);
  const LinkId first = cluster.join();
  const LinkId second = cluster.join();
  cluster.want_group();
  const auto ready = [&] { return cluster.core().ready(cluster.now()); };
  cluster.worker(first).steps = cluster.worker(second).steps = false;
  cluster.worker(first).waits = cluster.worker(second).advances = true;
  cluster.step(1);
  cluster.pass(5'000);
  EXPECT_TRUE(ready());
  cluster.worker(second).advances = false;
  cluster.pass(2'500);
  EXPECT_FALSE(ready());
  cluster.worker(second).advances = true;
  cluster.pass(500);
  EXPECT_TRUE(ready());
  cluster.worker(first).beats = false;
  cluster.pass(1'500);
  EXPECT_FALSE(ready());
  cluster.worker(first).beats = true;
  cluster.pass(500);
  EXPECT_TRUE(ready());
}

}  // namespace
}  // namespace lockstep::testing
