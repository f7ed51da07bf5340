// SPDX-License-Identifier: Apache-2.0
// A worker's side of the protocol on virtual time: what it runs and sends, and when it gives up.
#include <gtest/gtest.h>

#include "tests/worker/session/session_driver.h"

namespace lockstep {
namespace {

class SessionCoreTest : public SessionDriver {};

TEST_F(SessionCoreTest, AGroupIsFormedAndRunsSteps) {
  load_and_start(3);
  EXPECT_EQ(on(step(3, 5)), Actions({"run step 3"}));
  EXPECT_EQ(step_done(5), Actions({"send result 3"}));
  EXPECT_EQ(last_.result().step(), 5u);
  cluster::CoordinatorMessage logits = of(3);
  logits.mutable_logits();
  EXPECT_EQ(on(logits), Actions({"run logits 3"}));
}

TEST_F(SessionCoreTest, AStartAndAStepThatArriveTogetherRunInOrder) {
  load(1);
  EXPECT_EQ(on(start(1)), Actions({"run start 1"}));
  EXPECT_EQ(on(step(1)), Actions());
  EXPECT_EQ(done(), Actions({"run step 1"}));
}

TEST_F(SessionCoreTest, MessagesOfOtherEpochsAreDropped) {
  EXPECT_EQ(on(step(0)), Actions());  // No epoch was assigned yet.
  load_and_start(4);
  for (const uint64_t epoch : {0, 3, 5}) {
    EXPECT_EQ(on(step(epoch)), Actions());
    EXPECT_EQ(on(start(epoch)), Actions());
    EXPECT_EQ(on(abort_of(epoch)), Actions());
  }
  EXPECT_EQ(on(assignment(4)), Actions());
  EXPECT_EQ(on(assignment(3)), Actions());
  EXPECT_EQ(on(step(4)), Actions({"run step 4"}));
}

TEST_F(SessionCoreTest, AnAssignmentWithoutAnEpochIsRefused) {
  EXPECT_EQ(on(assignment(0)), Actions({"send failure 0"}));
  EXPECT_EQ(last_.failure().message(), "an assignment's epoch must be 1 or more, found 0");
}

TEST_F(SessionCoreTest, AnAbortReachesTheRunningStepAndSilencesTheEpoch) {
  load_and_start(1);
  on(step(1));
  EXPECT_EQ(on(abort_of(1)), Actions({"abort"}));
  EXPECT_EQ(on(abort_of(1)), Actions());
  EXPECT_EQ(done({.status = absl::AbortedError("aborted")}), Actions());
  EXPECT_EQ(on(step(1)), Actions());
  load(2, "i", true);
}

// This happens after SIGSTOP and SIGCONT: everything that was sent meanwhile arrives at once.
TEST_F(SessionCoreTest, ANewAssignmentAbortsTheOldEpochsWorkAndWaitsForIt) {
  load_and_start(1);
  on(step(1));
  EXPECT_EQ(on(assignment(2)), Actions({"abort"}));
  EXPECT_EQ(on(assignment(3)), Actions());
  EXPECT_EQ(step_done(), Actions({"run check 3"}));  // The old epoch's result is dropped.
  EXPECT_EQ(done({.stamp = "i"}), Actions({"run load 3 keep"}));
}

TEST_F(SessionCoreTest, ASuspendedWorkerAnswersInItsOldEpoch) {
  load_and_start(1);
  on(step(1));
  now_ += 60'000;  // It was suspended. The group has ended, but the worker has not read that.
  EXPECT_EQ(tick(), Actions({"send heartbeat 1"}));
  EXPECT_EQ(step_done(), Actions({"send result 1"}));
  EXPECT_EQ(on(abort_of(1)), Actions());
  EXPECT_EQ(on(assignment(7)), Actions({"run check 7"}));
  now_ += kHeartbeatMs;
  EXPECT_EQ(tick(), Actions({"send heartbeat 7"}));
}

TEST_F(SessionCoreTest, AFailureSaysWhyAndWhetherAPeerIsToBlame) {
  using enum absl::StatusCode;
  uint64_t epoch = 0;
  for (const auto code : {kUnavailable, kAborted, kCancelled, kDeadlineExceeded, kInvalidArgument,
                          kResourceExhausted, kInternal}) {
    on(assignment(++epoch));
    EXPECT_EQ(done({.status = absl::Status(code, "why")}),
              Actions({fmt::format("send failure {}", epoch)}));
    EXPECT_EQ(last_.failure().message(), "why");
    EXPECT_EQ(last_.failure().code(), static_cast<int>(code));
    EXPECT_EQ(last_.failure().peer_lost(), epoch <= 4);
    EXPECT_EQ(on(start(epoch)), Actions());  // The epoch is over.
  }
}

TEST_F(SessionCoreTest, StepsAndLogitsBeforeTheStartEndTheEpoch) {
  cluster::CoordinatorMessage logits;
  logits.mutable_logits();
  uint64_t epoch = 0;
  for (cluster::CoordinatorMessage early : {step(0), logits}) {
    on(assignment(++epoch));
    early.set_epoch(epoch);
    EXPECT_EQ(on(early), Actions());  // Weights are still being checked.
    done({.stamp = "i"});
    ASSERT_EQ(done(loaded("i")).back(), fmt::format("send failure {}", epoch));
    EXPECT_EQ(last_.failure().code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  }
  load(9, "i", true);
  on(start(9));
  done();
  EXPECT_EQ(on(start(9)), Actions({"send failure 9"}));
  EXPECT_EQ(last_.failure().message(), "a Start arrived after the group was started");
}

TEST_F(SessionCoreTest, TooManyQueuedMessagesEndTheEpoch) {
  load_and_start(1);
  for (int i = 0; i < 17; ++i) on(step(1));
  EXPECT_EQ(on(step(1)), Actions({"send failure 1", "abort"}));
  EXPECT_EQ(step_done(), Actions());
}

// --- Kept weights.

TEST_F(SessionCoreTest, KeptWeightsAreReusedOnlyIfProgramSourceAndStampAreTheSame) {
  load(1);
  load(2, "i", true);
  load(3, "another checkpoint");
  load(4, "another checkpoint", true);
  const auto loads_anew = [this](const cluster::CoordinatorMessage& message) {
    on(message);
    return done({.stamp = "another checkpoint"}) ==
           Actions({fmt::format("run load {}", message.epoch())});
  };
  EXPECT_TRUE(loads_anew(assignment(5, "another folder")));
  done(loaded("another checkpoint"));
  cluster::CoordinatorMessage other = assignment(6, "another folder");
  other.mutable_assignment()->mutable_program()->set_vocab(101);
  on(other);
  EXPECT_EQ(done({.stamp = "another checkpoint"}), Actions({"run load 6 reuse"}));
  done(loaded("another checkpoint"));
  other.set_epoch(7);
  other.mutable_assignment()->set_embedding_in_file(true);
  EXPECT_TRUE(loads_anew(other));
  done(loaded("another checkpoint"));
  other.set_epoch(8);
  other.mutable_assignment()->set_random_weights(true);
  EXPECT_TRUE(loads_anew(other));
}

TEST_F(SessionCoreTest, AnAssignmentCanRequestAReload) {
  load(1);
  cluster::CoordinatorMessage message = assignment(2);
  message.mutable_assignment()->set_reload(true);
  on(message);
  EXPECT_EQ(done({.stamp = "i"}), Actions({"run load 2"}));
}

TEST_F(SessionCoreTest, WeightsThatCouldNotBeLoadedAreNotKept) {
  load(1);
  on(assignment(2));
  EXPECT_EQ(done({.stamp = "new"}), Actions({"run load 2"}));
  done({.status = absl::ResourceExhaustedError("no memory")});
  EXPECT_EQ(in_memory_.stamp, "");
  on(assignment(3));
  EXPECT_EQ(done({.stamp = "i"}), Actions({"run load 3"}));
}

TEST_F(SessionCoreTest, AFailedRendezvousLosesNoWeights) {
  load(1);
  on(assignment(2));
  done({.stamp = "i"});
  done({.status = absl::DeadlineExceededError("no rank arrived")});
  load(3, "i", true);
}

TEST_F(SessionCoreTest, WeightsLoadedInAnEndedEpochAreStillKept) {
  on(assignment(1));
  done({.stamp = "i"});
  EXPECT_EQ(on(abort_of(1)), Actions({"abort"}));
  EXPECT_EQ(done(loaded("i")), Actions());
  load(2, "i", true);
}

// --- Heartbeats.

TEST_F(SessionCoreTest, AHeartbeatIsSentEvery250Milliseconds) {
  int beats = 0;
  const int64_t begin = now_;
  for (; now_ < begin + 10 * kHeartbeatMs; now_ += 10) beats += static_cast<int>(tick().size());
  EXPECT_EQ(beats, 9);
  EXPECT_EQ(core_.next_tick(), begin + 10 * kHeartbeatMs);
}

TEST_F(SessionCoreTest, ProgressOnlyGrowsWithinAnEpochAndIsComparableInSteps) {
  const auto beat = [this](const HeartbeatStats& heartbeat_stats) {
    now_ += kHeartbeatMs;
    tick(heartbeat_stats);
    return last_;
  };
  // In steps, progress does not count what was loaded: a peer may have loaded nothing.
  load_and_start(1);
  EXPECT_EQ(beat({.load_progress = 1'000'000, .instructions = 0}).heartbeat().progress(),
            kStepsProgress);
  on(assignment(2));  // The counters are still those of the last epoch.
  EXPECT_EQ(beat({.load_progress = 1'000'000, .instructions = 7}).heartbeat().progress(), 0u);
  done({.stamp = "new"});
  EXPECT_EQ(beat({.load_progress = 10, .instructions = 7}).heartbeat().progress(), 10u);
  done(loaded("new"));
  EXPECT_EQ(beat({.load_progress = 20, .instructions = 7}).heartbeat().progress(), 20u);
  on(start(2));
  EXPECT_EQ(beat({.load_progress = 20, .instructions = 0}).heartbeat().progress(), 20u);
  done();
  const cluster::WorkerMessage last = beat({.instructions = 4, .waiting = true});
  EXPECT_EQ(last.epoch(), 2u);
  EXPECT_EQ(last.heartbeat().progress(), kStepsProgress + 4);
  EXPECT_TRUE(last.heartbeat().waiting());
}

TEST_F(SessionCoreTest, LoadProgressIsSentWithHeartbeatsAndReadyEndsIt) {
  on(assignment(1));
  done({.stamp = "i"});
  now_ += kHeartbeatMs;
  const HeartbeatStats heartbeat_stats{.bytes_loaded = 5, .bytes_to_load = 50};
  EXPECT_EQ(tick(heartbeat_stats), Actions({"send heartbeat 1", "send progress 1"}));
  EXPECT_EQ(last_.progress().bytes_done(), 5);
  EXPECT_EQ(last_.progress().bytes_total(), 50);
  now_ += kHeartbeatMs;
  EXPECT_EQ(tick(heartbeat_stats), Actions({"send heartbeat 1"}));
  WorkResult result = loaded("i");
  result.bytes_loaded = 50;
  EXPECT_EQ(done(std::move(result)), Actions({"send progress 1", "send ready 1"}));
}

// --- Ends of the session.

TEST_F(SessionCoreTest, AWorkerIsReadyFromItsFirstAnsweredStepToTheEndOfTheEpoch) {
  EXPECT_FALSE(core_.ready());
  load(1);
  on(start(1));
  done();
  on(step(1));
  EXPECT_FALSE(core_.ready()) << "the null step has not crossed all ranks";
  step_done();
  EXPECT_TRUE(core_.ready());
  on(step(1));
  EXPECT_TRUE(core_.ready());
  on(abort_of(1));
  EXPECT_FALSE(core_.ready());
  step_done();
  EXPECT_FALSE(core_.ready());
  load(2, "i", true);
  on(start(2));
  done();
  on(step(2));
  EXPECT_FALSE(core_.ready());
  step_done();
  EXPECT_TRUE(core_.ready());
}

TEST_F(SessionCoreTest, AWorkerThatEndsIsNotReady) {
  load_and_start(1);
  on(step(1));
  step_done();
  on(step(1));
  ASSERT_TRUE(core_.ready());
  core_.stop(now_);
  EXPECT_FALSE(core_.ready());
  step_done();
  core_.closed();
  EXPECT_FALSE(core_.ready());
}

TEST_F(SessionCoreTest, AWorkerWhoseStreamIsClosedIsNotReady) {
  load_and_start(1);
  on(step(1));
  step_done();
  core_.closed();
  EXPECT_FALSE(core_.ready());
}

TEST_F(SessionCoreTest, ARefusalEndsTheConnectionWithItsReason) {
  cluster::CoordinatorMessage message;
  message.mutable_refusal()->set_reason("another version");
  EXPECT_EQ(on(message), Actions({"end another version"}));
}

TEST_F(SessionCoreTest, AClosedStreamAbortsTheWorkAndWaitsForIt) {
  load_and_start(1);
  on(step(1));
  core_.closed();
  EXPECT_EQ(actions(), Actions({"abort"}));
  EXPECT_EQ(tick(), Actions());
  EXPECT_EQ(done({.status = absl::AbortedError("aborted")}), Actions({"end OK"}));
}

TEST_F(SessionCoreTest, AStoppedWorkerSendsAGoodbyeAndEndsOnce) {
  load_and_start(1);
  on(step(1));
  core_.stop(now_);
  EXPECT_EQ(actions(), Actions({"send goodbye 0", "finish sending", "abort"}));
  EXPECT_EQ(tick(), Actions()) << "nothing follows a goodbye";
  core_.closed();
  EXPECT_EQ(actions(), Actions());
  EXPECT_EQ(step_done(), Actions({"end OK"}));
  core_.stop(now_);
  EXPECT_EQ(actions(), Actions());
}

TEST_F(SessionCoreTest, AfterItsGoodbyeAWorkerDoesNothingMoreUntilTheStreamEnds) {
  core_.stop(now_);
  EXPECT_EQ(actions(), Actions({"send goodbye 0", "finish sending"}));
  EXPECT_EQ(on(assignment(1)), Actions());
  EXPECT_EQ(on(preload(1)), Actions());
  now_ += kHeartbeatMs;
  EXPECT_EQ(tick(), Actions());
  core_.closed();
  EXPECT_EQ(actions(), Actions({"end OK"}));
}

TEST_F(SessionCoreTest, AnUnreadGoodbyeTimesOut) {
  core_.stop(now_);
  actions();
  now_ += kGoodbyeMs - 1;
  EXPECT_EQ(tick(), Actions());
  ++now_;
  EXPECT_EQ(core_.next_tick(), now_);
  EXPECT_EQ(tick(), Actions({"end OK"}));
}

TEST_F(SessionCoreTest, AWorkerThatIsStoppedTwiceEndsAtOnce) {
  core_.stop(now_);
  actions();
  core_.stop(now_);
  EXPECT_EQ(actions(), Actions({"end OK"}));
}

TEST_F(SessionCoreTest, AFailedDeviceIsReportedBeforeTheConnectionEnds) {
  load_and_start(1);
  on(step(1));
  EXPECT_EQ(done({.status = absl::InternalError("rank 0: GPU: fault"),
                  .device = absl::InternalError("GPU: fault")}),
            Actions({"send failure 1", "finish sending"}));
  EXPECT_EQ(on(assignment(2)), Actions());
  core_.closed();
  EXPECT_EQ(actions(), Actions({"end GPU: fault"}));
}

TEST_F(SessionCoreTest, AnUnreadDeviceFailureTimesOut) {
  load_and_start(1);
  on(step(1));
  done({.status = absl::InternalError("fault"), .device = absl::InternalError("fault")});
  now_ += kHangUpMs - 1;
  EXPECT_EQ(tick(), Actions());
  ++now_;
  EXPECT_EQ(core_.next_tick(), now_);
  EXPECT_EQ(tick(), Actions({"end fault"}));
}

}  // namespace
}  // namespace lockstep
