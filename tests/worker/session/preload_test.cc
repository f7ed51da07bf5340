// SPDX-License-Identifier: Apache-2.0
// A worker preloads the weights of a rank that it may become: the core's actions on virtual time,
// and the worker with its threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_program.h"
#include "tests/worker/session/connection.h"
#include "tests/worker/session/session_driver.h"

namespace lockstep {
namespace {

class PreloadTest : public SessionDriver {
 protected:
  static WorkResult retained() {
    WorkResult result{.stamp = "i"};
    result.reply.mutable_preloaded()->set_weight_bytes(70);
    return result;
  }

  uint64_t epoch_ = 0;
};

TEST_F(PreloadTest, ARankKeepsPreloadedWeights) {
  EXPECT_EQ(on(preload(5)), Actions({"run check 5"}));
  EXPECT_EQ(done({.stamp = "i"}), Actions({"run preload 5"}));
  EXPECT_EQ(done(retained()), Actions({"send preloaded 5"}));
  EXPECT_EQ(last_.preloaded().weight_bytes(), 70);
  load(6, "i", true);
}

TEST_F(PreloadTest, APreloadOfTheNextGroupKeepsReusableWeights) {
  on(preload(1));
  done({.stamp = "i"});
  done(retained());
  on(preload(2));
  EXPECT_EQ(done({.stamp = "i"}), Actions({"run preload 2 keep"}));
  EXPECT_EQ(done(retained()), Actions({"send preloaded 2"}));
  on(preload(3, 101));
  EXPECT_EQ(done({.stamp = "i"}), Actions({"run preload 3 reuse"}));
  EXPECT_EQ(done(retained()), Actions({"send preloaded 3"}));
  on(preload(4, 101));
  EXPECT_EQ(done({.stamp = "another checkpoint"}), Actions({"run preload 4"}));
}

TEST_F(PreloadTest, AWorkerWithoutARankIsReadyWhileItHoldsWeights) {
  on(preload(1));
  done({.stamp = "i"});
  EXPECT_FALSE(core_.ready());
  done(retained());
  EXPECT_TRUE(core_.ready());
  on(preload(2));
  done({.stamp = "i"});
  EXPECT_TRUE(core_.ready()) << "they stay in memory";
  done(retained());
  on(preload(3, 101));
  done({.stamp = "i"});
  EXPECT_FALSE(core_.ready()) << "it loads those of another rank";
  done(retained());
  EXPECT_TRUE(core_.ready());
  on(assignment(4));
  EXPECT_FALSE(core_.ready());
  done({.stamp = "i"});
  on(abort_of(4));
  done();
  EXPECT_FALSE(core_.ready());
}

TEST_F(PreloadTest, AWorkerThatCouldNotLoadIsNotReady) {
  on(preload(1));
  done({.stamp = "i"});
  done(retained());
  on(preload(2, 101));
  done({.stamp = "i"});
  done({.status = absl::ResourceExhaustedError("no room")});
  EXPECT_FALSE(core_.ready());
}

TEST_F(PreloadTest, AFailedPreloadSaysWhyAndEndsNothing) {
  on(preload(3));
  EXPECT_EQ(done({.status = absl::InvalidArgumentError("a bad program")}),
            Actions({"send preloaded 3"}));
  EXPECT_EQ(last_.preloaded().failure().message(), "a bad program");
  on(preload(4));
  done({.stamp = "i"});
  EXPECT_EQ(done({.status = absl::ResourceExhaustedError("no room")}),
            Actions({"send preloaded 4"}));
  EXPECT_EQ(last_.preloaded().failure().code(),
            static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(in_memory_.stamp, "");
  load_and_start(5);
}

TEST_F(PreloadTest, AnAssignmentOfOtherWeightsEndsARunningPreload) {
  cluster::CoordinatorMessage reload = assignment(2);
  reload.mutable_assignment()->set_reload(true);
  cluster::CoordinatorMessage other_part = assignment(2);
  other_part.mutable_assignment()->mutable_program()->set_vocab(101);
  for (cluster::CoordinatorMessage other : {assignment(2, "another folder"), reload, other_part}) {
    const uint64_t epoch = ++epoch_;
    on(preload(epoch));
    done({.stamp = "i"});
    other.set_epoch(++epoch_);
    EXPECT_EQ(on(other), Actions({"abort"}));
    EXPECT_EQ(done({.status = absl::CancelledError("cancelled")}),
              Actions({fmt::format("run check {}", epoch_)}));
    EXPECT_EQ(done({.stamp = "i"}), Actions({fmt::format("run load {}", epoch_)}));
    on(abort_of(epoch_));
    done({.status = absl::CancelledError("cancelled")});
  }
}

TEST_F(PreloadTest, ARunningPreloadContinuesForAnAssignmentOfItsWeights) {
  on(preload(1));
  done({.stamp = "i"});
  EXPECT_EQ(on(assignment(2)), Actions());
  now_ += kHeartbeatMs;
  EXPECT_EQ(tick({.load_progress = 9}), Actions({"send heartbeat 2"}));
  EXPECT_EQ(last_.heartbeat().progress(), 9u)
      << "without progress the worker would be considered stuck";
  EXPECT_EQ(done(retained()), Actions({"run check 2"}))
      << "the coordinator does not wait for the answer";
  now_ += kHeartbeatMs;
  tick({.load_progress = 9});
  EXPECT_EQ(last_.heartbeat().progress(), 0u);
  EXPECT_EQ(done({.stamp = "i"}), Actions({"run load 2 keep"}));
}

TEST_F(PreloadTest, AContinuedPreloadEndsWithTheEpochThatNeedsIt) {
  on(preload(1));
  done({.stamp = "i"});
  on(assignment(2));
  EXPECT_EQ(on(assignment(3)), Actions());
  EXPECT_EQ(on(abort_of(3)), Actions({"abort"}));
  EXPECT_EQ(done({.status = absl::CancelledError("cancelled")}), Actions());
}

TEST_F(PreloadTest, WeightsThatAContinuedPreloadCouldNotLoadAreLoaded) {
  on(preload(1));
  done({.stamp = "i"});
  on(assignment(2));
  EXPECT_EQ(done({.status = absl::ResourceExhaustedError("no room")}), Actions({"run check 2"}));
  EXPECT_EQ(done({.stamp = "i"}), Actions({"run load 2"}));
}

TEST_F(PreloadTest, OnlyTheLastOfSeveralPreloadsRuns) {
  on(preload(1));
  EXPECT_EQ(on(preload(2)), Actions({"abort"}));
  EXPECT_EQ(on(preload(3)), Actions());
  EXPECT_EQ(done({.stamp = "i"}), Actions({"run check 3"}));
  EXPECT_EQ(done({.stamp = "i"}), Actions({"run preload 3"}));
  EXPECT_EQ(done(retained()), Actions({"send preloaded 3"}));
}

TEST_F(PreloadTest, ARankPreloadsNothing) {
  load_and_start(1);
  EXPECT_EQ(on(preload(1)), Actions());
  EXPECT_EQ(on(preload(2)), Actions());
  EXPECT_EQ(on(abort_of(1)), Actions());
  EXPECT_EQ(on(preload(2)), Actions({"run check 2"}));
}

TEST_F(PreloadTest, APreloadReportsNoProgress) {
  on(preload(1));
  done({.stamp = "i"});
  now_ += kHeartbeatMs;
  EXPECT_EQ(tick({.load_progress = 9, .bytes_loaded = 9, .bytes_to_load = 10}),
            Actions({"send heartbeat 0"}));
  EXPECT_EQ(last_.heartbeat().progress(), 0u);
  core_.closed();
  EXPECT_EQ(actions(), Actions({"abort"}));
  EXPECT_EQ(done({.status = absl::CancelledError("cancelled")}), Actions({"end OK"}));
}

// --- The worker with its threads.

cluster::CoordinatorMessage preload_of(uint64_t epoch, const program::Program& program) {
  cluster::CoordinatorMessage message;
  message.set_epoch(epoch);
  *message.mutable_preload() = assign(epoch, program).assignment();
  return message;
}

cluster::Preloaded preloaded(Connection& worker, uint64_t epoch, const program::Program& program) {
  worker.send(preload_of(epoch, program));
  const cluster::WorkerMessage answer = worker.next();
  EXPECT_TRUE(answer.has_preloaded()) << answer.ShortDebugString();
  EXPECT_EQ(answer.epoch(), epoch);
  return answer.preloaded();
}

TEST(PreloadingSessionTest, ARankAfterAPreloadReadsNothingAndComputes) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  const cluster::Preloaded retained = preloaded(worker, 4, layer_program());
  EXPECT_FALSE(retained.has_failure()) << retained.failure().message();
  bool loaded = true;
  const cluster::Ready ready = worker.ready(assign(5, layer_program()), &loaded);
  EXPECT_FALSE(loaded);
  EXPECT_EQ(ready.weight_bytes(), retained.weight_bytes());
  worker.send(start(5));
  worker.send(step(5, 1));
  EXPECT_TRUE(worker.next().has_result());
}

// Preloads for one of two ranks. Its peer is absent and is not needed.
TEST(PreloadingSessionTest, APreloadNeedsNoPeers) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  EXPECT_FALSE(preloaded(worker, 4, shared_layer_program(1, 2)).has_failure());
  EXPECT_FALSE(preloaded(worker, 5, shared_layer_program(0, 2)).has_failure());
}

TEST(PreloadingSessionTest, PreloadedWeightsAreKeptForTheNextCoordinator) {
  PersistentWorker persistent;
  Connection first(&persistent);
  EXPECT_FALSE(preloaded(first, 9, layer_program()).has_failure());
  EXPECT_EQ(first.end(), absl::OkStatus());
  Connection second(&persistent);
  bool loaded = true;
  second.ready(assign(1, layer_program()), &loaded);
  EXPECT_FALSE(loaded);
}

TEST(PreloadingSessionTest, APreloadAfterARankKeepsTheRanksWeights) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  worker.ready(assign(1, layer_program()));
  worker.send(start(1));
  worker.send(abort_of(1));
  EXPECT_FALSE(preloaded(worker, 2, layer_program()).has_failure());
  bool loaded = true;
  worker.ready(assign(3, layer_program()), &loaded);
  EXPECT_FALSE(loaded);
}

TEST(PreloadingSessionTest, APreloadWithTooLittleMemoryFailsInOneLineAndTheWorkerStays) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  cluster::CoordinatorMessage message = preload_of(1, layer_program());
  message.mutable_preload()->set_kv_memory_bytes(1);
  worker.send(message);
  const cluster::Failure failure = worker.next().preloaded().failure();
  EXPECT_THAT(failure.message(), ::testing::HasSubstr("rank 0: no room for one KV page"));
  EXPECT_EQ(failure.code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  worker.ready(assign(2, layer_program()));
}

TEST(PreloadingSessionTest, AnInvalidProgramIsRefusedAndTheWorkerStays) {
  PersistentWorker persistent;
  Connection worker(&persistent);
  program::Program program = layer_program();
  program.set_rank(7);
  EXPECT_TRUE(preloaded(worker, 1, program).has_failure());
  worker.ready(assign(2, layer_program()));
}

}  // namespace
}  // namespace lockstep
