// SPDX-License-Identifier: Apache-2.0
// Cancellation, lost groups, full queues, the end of the engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "base/status.h"
#include "base/system/clock.h"
#include "tests/coordinator/helpers.h"
#include "tests/support/cluster/fake_cluster.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string text_of(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

TEST(EngineFaultsTest, CancelledRequestsFreeTheirPagesAndDisturbNoOther) {
  const FakeModel model = {.pages = 300, .max_rows = 256, .max_outputs = 64, .max_sequences = 64};
  FakeCluster cluster(model);
  Engine engine(&cluster, nullptr, {});
  ASSERT_TRUE(engine.wait_ready().ok());
  const EngineRequest steady = request_of(1000, 9, 40);
  const Answer alone = finish(**engine.submit(steady))[0];
  std::mt19937 random(3);
  for (int round = 0; round < 10; ++round) {
    const std::shared_ptr<Stream> kept = *engine.submit(steady);
    std::vector<std::shared_ptr<Stream>> streams;
    for (int32_t i = 0; i < 50; ++i) {
      EngineRequest request = request_of(i, 1 + i, 200);
      request.n = 1 + i % 2;
      streams.push_back(*engine.submit(request));
    }
    for (const std::shared_ptr<Stream>& stream : streams) {
      if (random() % 2 == 0) stream->wait(random() % 5);
      engine.cancel(stream);
    }
    engine.cancel(streams[0]);  // A second cancel does no harm.
    for (const std::shared_ptr<Stream>& stream : streams) {
      for (const auto& [index, answer] : finish(*stream)) {
        EXPECT_EQ(answer.finish_reason, FinishReason::kCancelled);
        EXPECT_EQ(answer.completion_tokens, static_cast<int32_t>(answer.tokens.size()));
      }
      EXPECT_TRUE(stream->status().ok());
    }
    EXPECT_EQ(finish(*kept)[0].tokens, alone.tokens);
    engine.cancel(kept);  // This request has ended already.
    eventually([&] {
      const EngineStats stats = engine.stats();
      return stats.pages_free == model.pages && stats.running == 0 && stats.waiting == 0;
    });
  }
  EXPECT_THAT(cluster.broken_rules(), IsEmpty());
}

TEST(EngineFaultsTest, ACancelledRequestIsGoneBeforeTheNextStep) {
  FakeCluster cluster({});
  Engine engine(&cluster, nullptr, {.idle_step_ms = 0});
  ASSERT_TRUE(engine.wait_ready().ok());
  std::promise<void> cancelled;
  std::atomic<int> steps = 0;
  cluster.set_hook([&](const cluster::Step&) {
    if (++steps == 3) cancelled.get_future().wait();
    return absl::OkStatus();
  });
  const std::shared_ptr<Stream> stream = *engine.submit(request_of(1, 3, 100));
  eventually([&] { return steps == 3; });
  engine.cancel(stream);
  cancelled.set_value();
  EXPECT_EQ(finish(*stream)[0].tokens.size(), 3u) << "the running step is the last";
  eventually([&] { return engine.stats().pages_free == 64; });
  EXPECT_EQ(steps, 3);
}

TEST(EngineFaultsTest, ALostGroupsRequestsGoOnWithTheNextOne) {
  FakeCluster cluster({.pages = 20});
  Engine engine(&cluster, nullptr, {});
  ASSERT_TRUE(engine.wait_ready().ok());
  std::map<int32_t, std::vector<int32_t>> alone;
  for (int32_t i = 0; i < 16; ++i) {
    alone[i] = finish(**engine.submit(request_of(i, 8, 30)))[0].tokens;
  }
  for (int round = 1; round <= 5; ++round) {
    std::atomic<int> steps = 0;
    cluster.set_hook([&](const cluster::Step&) -> absl::Status {
      if (++steps < 4) return absl::OkStatus();
      cluster.allow_forming(false);
      return absl::UnavailableError("rank 2 (pid 77): the connection was lost");
    });
    std::vector<std::shared_ptr<Stream>> streams;
    streams.reserve(16);
    for (int32_t i = 0; i < 12; ++i) {  // Some run, some wait, some are still in the inbox.
      streams.push_back(*engine.submit(request_of(i, 8, 30)));
    }
    eventually([&] { return !engine.stats().ready; });
    for (int32_t i = 12; i < 16; ++i) streams.push_back(*engine.submit(request_of(i, 8, 30)));
    eventually([&] { return engine.stats().waiting == 16; });
    cluster.set_hook(nullptr);
    cluster.allow_forming(true);
    for (int32_t i = 0; i < 16; ++i) {
      EXPECT_EQ(finish(*streams[static_cast<size_t>(i)])[0].tokens, alone[i]);
      EXPECT_EQ(message_of(streams[static_cast<size_t>(i)]->status()), "");
    }
    EXPECT_EQ(cluster.groups(), round + 1);
    EXPECT_EQ(engine.stats().groups_lost, round);
    EXPECT_EQ(engine.stats().group.epoch, static_cast<uint64_t>(round + 1));
    eventually([&] { return engine.stats().pages_free == 20; });
  }
  EXPECT_THAT(cluster.broken_rules(), IsEmpty());
}

TEST(EngineFaultsTest, RequestsWithoutAGroupAreBoundedAndEndOnTime) {
  FakeCluster cluster({});
  Engine engine(
      &cluster, nullptr,
      {.max_waiting = {.requests = 4, .choices = 99, .prompt_tokens = 999, .bytes = 99'999},
       .idle_step_ms = 1});
  ASSERT_TRUE(engine.wait_ready().ok());
  cluster.set_hook([&](const cluster::Step&) -> absl::Status {
    cluster.allow_forming(false);
    return absl::UnavailableError("rank 0 (pid 7) was lost");
  });
  eventually([&] { return !engine.stats().ready; });
  std::vector<std::shared_ptr<Stream>> streams;
  EngineRequest hurried = request_of(5, 3, 5);
  hurried.deadline_ms = steady_now_ms() + 1;
  streams.push_back(*engine.submit(hurried));
  finish(*streams[0]);
  EXPECT_EQ(streams[0]->status().code(), absl::StatusCode::kDeadlineExceeded);
  const absl::Status refused = submit_until_refused(
      engine, 100, [](int32_t i) { return request_of(i, 3, 5); }, &streams);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(streams.size(), 5u);
  engine.cancel(streams[1]);
  EXPECT_EQ(finish(*streams[1])[0].finish_reason, FinishReason::kCancelled);
  engine.drain(std::chrono::milliseconds(1));
  for (const std::shared_ptr<Stream>& stream : streams) {
    EXPECT_NE(finish(*stream)[0].finish_reason, FinishReason::kLength);
  }
  EXPECT_EQ(streams[4]->status().code(), absl::StatusCode::kCancelled);
}

// Loses the group and waits until the next one is formed with the model `next`.
void lose_for(FakeCluster& cluster, const Engine& engine, const FakeModel& next) {
  const int64_t lost = engine.stats().groups_lost;
  cluster.change(next);
  cluster.set_hook([](const cluster::Step&) { return absl::UnavailableError("rank 1 was lost"); });
  eventually([&] { return engine.stats().groups_lost > lost; });
  cluster.set_hook(nullptr);
  eventually([&] { return engine.stats().ready && engine.stats().group.pages == next.pages; });
}

TEST(EngineFaultsTest, ARequestThatOnlyFitsTheWholeGroupWaitsUntilItsDeadline) {
  const FakeModel whole = {.ranks = 2, .pages = 20, .page_tokens = 4};
  const FakeModel smaller = {.ranks = 1, .pages = 5, .page_tokens = 4};
  FakeCluster cluster(whole);
  Engine engine(&cluster, nullptr, {.idle_step_ms = 1});
  ASSERT_TRUE(engine.wait_ready().ok());
  EngineRequest large = request_of(1, 30, 9);
  const std::vector<int32_t> alone = finish(**engine.submit(large))[0].tokens;
  lose_for(cluster, engine, smaller);

  const absl::Status endless = engine.submit(large).status();
  EXPECT_EQ(endless.code(), absl::StatusCode::kUnavailable) << endless;
  large.deadline_ms = steady_now_ms() + 3'600'000;
  absl::StatusOr<std::shared_ptr<Stream>> waits = engine.submit(large);
  ASSERT_TRUE(waits.ok()) << waits.status();
  EngineRequest hurried = large;
  hurried.deadline_ms = steady_now_ms() + 1;
  absl::StatusOr<std::shared_ptr<Stream>> late = engine.submit(hurried);
  ASSERT_TRUE(late.ok()) << late.status();
  finish(**late);
  EXPECT_EQ((*late)->status().code(), absl::StatusCode::kDeadlineExceeded);
  EngineRequest never = request_of(1, 90, 1);
  never.deadline_ms = large.deadline_ms;
  EXPECT_EQ(engine.submit(never).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(finish(**engine.submit(request_of(2, 3, 5)))[0].tokens.size(), 5u);
  eventually([&] { return engine.stats().waiting == 1; });

  lose_for(cluster, engine, whole);
  EXPECT_EQ(finish(**waits)[0].tokens, alone);
  EXPECT_EQ(message_of((*waits)->status()), "");
}

TEST(EngineFaultsTest, AnIdleEngineNoticesThatItsGroupWasLost) {
  FakeCluster cluster({});
  Engine engine(&cluster, nullptr, {.idle_step_ms = 5});
  ASSERT_TRUE(engine.wait_ready().ok());
  std::atomic<int> empty_steps = 0;
  cluster.set_hook([&](const cluster::Step& step) -> absl::Status {
    EXPECT_EQ(step.tokens_size(), 0);
    if (++empty_steps < 3) return absl::OkStatus();
    cluster.allow_forming(false);
    return absl::UnavailableError("rank 0: no heartbeat");
  });
  eventually([&] { return !engine.stats().ready; });
  cluster.set_hook(nullptr);
  cluster.allow_forming(true);
  EXPECT_TRUE(engine.wait_ready().ok());
}

TEST(EngineFaultsTest, AFullQueueRefusesAndServesAgainWhenItHasDrained) {
  FakeCluster cluster({.max_sequences = 2});
  Engine engine(
      &cluster, nullptr,
      {.max_waiting = {.requests = 5, .choices = 99, .prompt_tokens = 999, .bytes = 99'999}});
  ASSERT_TRUE(engine.wait_ready().ok());
  StepGate gate(cluster);
  std::vector<std::shared_ptr<Stream>> streams;
  const absl::Status refused = submit_until_refused(
      engine, 100, [](int32_t i) { return request_of(i, 3, 5); }, &streams);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(text_of(refused), HasSubstr("5 requests wait"));
  EXPECT_THAT(streams.size(), testing::AllOf(testing::Ge(5u), testing::Le(7u)));
  EXPECT_GE(engine.stats().waiting, 3);
  gate.open();
  for (const std::shared_ptr<Stream>& stream : streams) {
    EXPECT_EQ(finish(*stream)[0].tokens.size(), 5u);
  }
  eventually([&] { return engine.stats().waiting == 0; });
  EXPECT_TRUE(engine.submit(request_of(1, 3, 5)).ok());
}

TEST(EngineFaultsTest, DestroyingTheEngineEndsOpenStreams) {
  FakeCluster cluster({.max_sequences = 2});
  std::vector<std::shared_ptr<Stream>> streams;
  {
    Engine engine(&cluster, nullptr, {});
    ASSERT_TRUE(engine.wait_ready().ok());
    for (int32_t i = 0; i < 8; ++i) streams.push_back(*engine.submit(request_of(i, 3, 240)));
    streams[0]->wait(2);
  }
  EXPECT_EQ(cluster.aborts(), 1);
  int cancelled = 0;
  for (const std::shared_ptr<Stream>& stream : streams) {
    const FinishReason reason = finish(*stream)[0].finish_reason;
    if (reason == FinishReason::kLength) continue;  // The request ended before the engine.
    ++cancelled;
    EXPECT_EQ(reason, FinishReason::kCancelled);
    EXPECT_EQ(stream->status().code(), absl::StatusCode::kCancelled);
  }
  EXPECT_GT(cancelled, 0);
}

TEST(EngineFaultsTest, RequestsBeforeAGroupAreRefusedAndWaitReadyWaits) {
  FakeCluster cluster({});
  cluster.allow_forming(false);
  Engine engine(&cluster, nullptr, {});
  EXPECT_EQ(engine.submit(request_of(1, 3, 5)).status().code(), absl::StatusCode::kUnavailable);
  std::latch asks(1);
  std::atomic<bool> allowed = false;
  std::thread waiter([&] {
    asks.count_down();
    EXPECT_TRUE(engine.wait_ready().ok());
    EXPECT_TRUE(allowed) << "there was no group yet";
  });
  asks.wait();
  allowed = true;
  cluster.allow_forming(true);
  waiter.join();
}

TEST(EngineFaultsTest, AClusterThatCanNeverFormReportsWhyToAllCallers) {
  FakeCluster cluster({});
  cluster.refuse(absl::FailedPreconditionError("model: needs 9 GB, found 4 GB"));
  Engine engine(&cluster, nullptr, {});
  EXPECT_EQ(engine.wait_ready(), absl::FailedPreconditionError("model: needs 9 GB, found 4 GB"));
  const absl::Status status = engine.submit(request_of(1, 3, 5)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(text_of(status), HasSubstr("needs 9 GB"));
}

TEST(EngineFaultsTest, ARowOfNanEndsOnlyItsRequest) {
  FakeCluster cluster({.poison = 99});
  Engine engine(&cluster, nullptr, {});
  ASSERT_TRUE(engine.wait_ready().ok());
  EngineRequest bad = request_of(1, 3, 50);
  bad.prompt_ids[0] = 99;
  bad.n = 3;
  const std::shared_ptr<Stream> good = *engine.submit(request_of(2, 3, 50));
  const std::shared_ptr<Stream> stream = *engine.submit(bad);
  finish(*stream);
  EXPECT_EQ(stream->status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(finish(*good)[0].tokens.size(), 50u);
  eventually([&] { return engine.stats().pages_free == 64; });
  EXPECT_EQ(cluster.groups(), 1);
}

// Other rows of the same step were drawn before the loss, so their readers get these tokens.
TEST(EngineFaultsTest, AFetchOfLogitsThatLosesEveryGroupEndsOnlyItsRequest) {
  FakeCluster cluster({.ranks = 2, .vocab = 2000, .pages = 1000, .max_context = 16'000});
  Engine engine(&cluster, nullptr, {.max_unread_bytes = int64_t{1} << 30});
  ASSERT_TRUE(engine.wait_ready().ok());
  const Answer alone = finish(**engine.submit(request_of(1, 5, 100)))[0];
  cluster.fail_logits(absl::UnavailableError("rank 1 (pid 33) was lost: its stream ended"));
  const std::shared_ptr<Stream> greedy = *engine.submit(request_of(1, 5, 100));
  EngineRequest wide = request_of(2, 5, 40);
  wide.sampling = {.temperature = 10, .top_p = 0.9f, .logit_bias = {}};
  const std::shared_ptr<Stream> asked = *engine.submit(wide);
  finish(*asked);
  EXPECT_EQ(asked->status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(text_of(asked->status()), HasSubstr("rank 1 (pid 33) was lost"));
  EXPECT_EQ(finish(*greedy)[0].tokens, alone.tokens);
  EXPECT_EQ(message_of(greedy->status()), "");
  EXPECT_EQ(cluster.groups(), 4);
  EXPECT_THAT(cluster.broken_rules(), IsEmpty());
}

TEST(EngineFaultsTest, NoErrorEndsTheEngineAfterAFirstGroup) {
  FakeCluster cluster({});
  Engine engine(&cluster, nullptr, {});
  ASSERT_TRUE(engine.wait_ready().ok());
  const Answer alone = finish(**engine.submit(request_of(1, 4, 10)))[0];
  cluster.set_hook([&](const cluster::Step&) -> absl::Status {
    cluster.refuse(absl::FailedPreconditionError("rank 0 is on another host than its peers"));
    return absl::UnavailableError("rank 1 (pid 5) was lost");
  });
  const std::shared_ptr<Stream> stream = *engine.submit(request_of(1, 4, 10));
  eventually([&] { return cluster.refusals() >= 2; });
  EXPECT_FALSE(engine.stats().ready);
  cluster.set_hook(nullptr);
  cluster.refuse(absl::OkStatus());
  EXPECT_EQ(finish(*stream)[0].tokens, alone.tokens);
}

TEST(EngineFaultsTest, AnEngineThatEndsUnaskedReturnsAnError) {
  FakeCluster cluster({});
  Engine engine(&cluster, nullptr, {.idle_step_ms = 1});
  ASSERT_TRUE(engine.wait_ready().ok());
  cluster.shutdown();  // The engine did not ask for this.
  cluster.set_hook([](const cluster::Step&) { return absl::UnavailableError("all ranks left"); });
  EXPECT_EQ(engine.wait_end().code(), absl::StatusCode::kInternal);
}

TEST(EngineFaultsTest, AGroupThatSendsInvalidResultsIsDroppedAndTheNextOneServes) {
  FakeCluster cluster({});
  Engine engine(&cluster, nullptr, {});
  ASSERT_TRUE(engine.wait_ready().ok());
  const Answer alone = finish(**engine.submit(request_of(1, 4, 10)))[0];
  for (const int lies : {1, 2, 3}) {
    std::atomic<int> left = lies;
    cluster.falsify([&left](std::vector<cluster::StepResult>* results) {
      if (left-- > 0) results->back().mutable_outputs(0)->mutable_noisy()->set_id(1 << 20);
    });
    const std::shared_ptr<Stream> stream = *engine.submit(request_of(1, 4, 10));
    const Answer answer = finish(*stream)[0];
    cluster.falsify(nullptr);
    if (lies < 3) {
      EXPECT_EQ(answer.tokens, alone.tokens);
      continue;
    }
    EXPECT_EQ(stream->status().code(), absl::StatusCode::kInternal) << "no honest group ran it";
    EXPECT_THAT(text_of(stream->status()),
                HasSubstr("Candidate.id: must be 0 to 299, found 1048576"));
  }
  EXPECT_EQ(finish(**engine.submit(request_of(1, 4, 10)))[0].tokens.size(), 10u);
  EXPECT_EQ(cluster.groups(), 7);
}

TEST(EngineFaultsTest, AReaderThatNeverReadsIsCutOffAndOthersStreamOn) {
  const FakeModel model = {.pages = 400, .max_context = 1000};
  FakeCluster cluster(model);
  Engine engine(&cluster, nullptr, {.max_unread_bytes = 20'000});
  ASSERT_TRUE(engine.wait_ready().ok());
  const Answer alone = finish(**engine.submit(request_of(2, 5, 40)))[0];
  EngineRequest request = request_of(1, 3, 900);
  request.n = 2;
  const std::shared_ptr<Stream> unread = *engine.submit(request);
  const std::shared_ptr<Stream> other = *engine.submit(request_of(2, 5, 40));
  EXPECT_EQ(finish(*other)[0].tokens, alone.tokens);
  EXPECT_TRUE(other->status().ok());
  unread->wait(std::numeric_limits<size_t>::max());  // Blocks until the stream is closed.
  EXPECT_EQ(unread->status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(text_of(unread->status()),
              HasSubstr("unread bytes of a choice must be at most 20000"));
  eventually([&] { return engine.stats().pages_free == model.pages; });
  EXPECT_EQ(cluster.groups(), 1);
}

}  // namespace
}  // namespace lockstep
