// SPDX-License-Identifier: Apache-2.0
// Draining: running work goes on, new work is refused, and work that takes too long is cancelled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/status.h"
#include "coordinator/admission/admission.h"
#include "tests/coordinator/helpers.h"
#include "tests/support/cluster/fake_cluster.h"

namespace lockstep {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(EngineDrainTest, RunningAndQueuedStreamsGoOnToTheirEnd) {
  FakeCluster cluster({.max_sequences = 2});
  Engine engine(&cluster, nullptr, {});
  ASSERT_TRUE(engine.wait_ready().ok());
  StepGate gate(cluster);
  std::vector<std::shared_ptr<Stream>> streams;
  for (int32_t i = 0; i < 6; ++i) streams.push_back(*engine.submit(request_of(i, 3, 20)));
  EXPECT_TRUE(engine.stats().ready);
  engine.drain(hours(1));
  EXPECT_FALSE(engine.stats().ready);
  const absl::Status refused = engine.submit(request_of(9, 3, 20)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message_of(refused), HasSubstr("the server is draining"));
  EXPECT_EQ(engine.accepting(), refused);
  gate.open();
  for (const std::shared_ptr<Stream>& stream : streams) {
    EXPECT_EQ(finish(*stream)[0].tokens.size(), 20u);
    EXPECT_TRUE(stream->status().ok());
  }
  streams.clear();  // A stream's reader may still have events to send, so the drain waits for it.
  EXPECT_TRUE(engine.wait_end().ok());
}

// A cluster whose shutdown() first waits for the end of a stream. By then the engine has left its
// group.
class LateCluster : public FakeCluster {
 public:
  LateCluster() : FakeCluster(FakeModel{}) {}
  void watch(std::shared_ptr<Stream> stream) { stream_ = std::move(stream); }
  void shutdown() override {
    if (const std::shared_ptr<Stream> stream = std::exchange(stream_, nullptr)) finish(*stream);
    FakeCluster::shutdown();
  }

 private:
  std::shared_ptr<Stream> stream_;
};

TEST(EngineDrainTest, AnEngineThatStopsFormsNoOtherGroup) {
  LateCluster cluster;
  {
    Engine engine(&cluster, nullptr, {});
    ASSERT_TRUE(engine.wait_ready().ok());
    cluster.watch(*engine.submit(request_of(1, 3, 1'000'000)));
    engine.stop();
  }
  EXPECT_EQ(cluster.groups(), 1);
}

TEST(EngineDrainTest, ADrainLastsAsLongAsAReaderHoldsItsStream) {
  FakeCluster cluster({});
  Engine engine(&cluster, nullptr, {});
  ASSERT_TRUE(engine.wait_ready().ok());
  std::shared_ptr<Stream> stream = *engine.submit(request_of(1, 3, 20));
  finish(*stream);
  engine.drain(hours(1));
  std::atomic<bool> ended = false;
  std::thread waiter([&] {
    EXPECT_TRUE(engine.wait_end().ok());
    ended = true;
  });
  EXPECT_FALSE(ended);
  stream = nullptr;
  waiter.join();
}

TEST(EngineDrainTest, RequestsThatAreNotDoneInTimeEndAsCancelled) {
  FakeCluster cluster({});
  Engine engine(&cluster, nullptr, {});
  ASSERT_TRUE(engine.wait_ready().ok());
  std::atomic<bool> draining = false;
  cluster.set_hook([&](const cluster::Step&) {
    while (!draining) std::this_thread::yield();
    return absl::OkStatus();
  });
  const std::shared_ptr<Stream> stream = *engine.submit(request_of(1, 3, 240));
  engine.drain(milliseconds(0));
  draining = true;
  EXPECT_EQ(finish(*stream)[0].finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(stream->status(), absl::CancelledError("the server is stopping"));
  EXPECT_TRUE(engine.wait_end().ok()) << "although the stream is still held";
}

TEST(EngineDrainTest, StoppingEndsADrainAtOnce) {
  FakeCluster cluster({});
  Engine engine(&cluster, nullptr, {});
  ASSERT_TRUE(engine.wait_ready().ok());
  const std::shared_ptr<Stream> stream = *engine.submit(request_of(1, 3, 250));
  cluster.set_hook([&](const cluster::Step&) {
    engine.stop();  // Like a second signal to the server.
    return absl::UnavailableError("aborted");
  });
  engine.drain(hours(1));
  EXPECT_TRUE(engine.wait_end().ok());
  const FinishReason reason = finish(*stream)[0].finish_reason;
  if (reason == FinishReason::kLength) return;  // The request ended before the stop.
  EXPECT_EQ(reason, FinishReason::kCancelled);
  EXPECT_EQ(stream->status().code(), absl::StatusCode::kCancelled);
}

TEST(EngineDrainTest, ADrainIsOverAtOnceWithoutRequestsOrAGroup) {
  FakeCluster cluster({});
  cluster.allow_forming(false);
  Engine engine(&cluster, nullptr, {});
  engine.drain(hours(1));
  EXPECT_EQ(engine.wait_ready().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(engine.wait_end().ok());
}

TEST(AdmissionTest, TheQueueCountsRequestsThatHaveNotStarted) {
  FakeCluster cluster({.max_sequences = 2});
  Engine engine(
      &cluster, nullptr,
      {.max_waiting = {.requests = 100, .choices = 8, .prompt_tokens = 1000, .bytes = 1'000'000}});
  ASSERT_TRUE(engine.wait_ready().ok());
  StepGate gate(cluster);
  EngineRequest request = request_of(1, 3, 5);
  request.n = 4;
  std::vector<std::shared_ptr<Stream>> streams;
  const absl::Status refused = submit_until_refused(
      engine, 20, [&](int32_t) { return request; }, &streams);
  EXPECT_THAT(message_of(refused), HasSubstr("8 choices wait, this request adds 4, the max is 8"));
  gate.open();
  for (const std::shared_ptr<Stream>& stream : streams) finish(*stream);
  eventually([&] { return engine.submit(request).ok(); });
}

}  // namespace
}  // namespace lockstep
