// SPDX-License-Identifier: Apache-2.0
// Resumable requests of a real engine: they run without readers, end, are removed to free memory,
// and expire.
#include "coordinator/streams/resumable_streams.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/coordinator/helpers.h"

namespace lockstep {
namespace {

constexpr int64_t kMinute = 60'000;

class ResumableStreamsTest : public ::testing::Test {
 protected:
  ResumableStreamsTest() : cluster_(FakeModel{}) {}
  void start(const ResumableOptions& options = {}) {
    resumable_ = std::make_unique<ResumableStreams>(options, [this] { return now_ms_.load(); });
    engine_ = std::make_unique<Engine>(&cluster_, nullptr, EngineOptions{});
    EXPECT_TRUE(engine_->wait_ready().ok());
  }
  absl::StatusOr<std::shared_ptr<ResumableStream>> submit(
      const std::string& id, int32_t max_tokens, std::shared_ptr<Permit> permit = nullptr) {
    return resumable_->submit(engine_.get(), request_of(1, 5, max_tokens),
                              {.name = {.owner = "", .id = id}, .permit = std::move(permit)});
  }
  // Reads a log to its end and returns its status.
  static absl::Status finish(ResumableStream& resumable, size_t* events) {
    auto reader = resumable.log().open(0);
    EXPECT_TRUE(reader.ok()) << reader.status();
    std::vector<StreamEvent> some;
    *events = 0;
    eventually([&] {
      const bool ended = (*reader)->read(*events, &some);
      *events += some.size();
      return ended;
    });
    return (*reader)->status();
  }

  FakeCluster cluster_;
  std::atomic<int64_t> now_ms_ = 0;
  std::unique_ptr<ResumableStreams> resumable_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(ResumableStreamsTest, AStreamRunsWithoutAReaderAndIsReadAfterItsEnd) {
  start();
  const auto resumable = submit("a", 30);
  ASSERT_TRUE(resumable.ok()) << resumable.status();
  eventually([&] { return engine_->stats().completion_tokens == 30; });
  size_t events = 0;
  EXPECT_TRUE(finish(**resumable, &events).ok());
  EXPECT_EQ(events, 30u);
  ASSERT_TRUE(resumable_->find({.owner = "", .id = "a"}).ok());
  EXPECT_EQ(resumable_->counts().streams, 1);
  eventually([&] {  // Until the index knows that the stream has ended.
    now_ms_ += kMinute;
    return resumable_->find({.owner = "", .id = "a"}).status() == event_log_is_gone();
  });
  EXPECT_EQ(resumable_->counts().bytes, 0);
  eventually([&] { return (*resumable)->log().open(0).status() == event_log_is_gone(); });
}

TEST_F(ResumableStreamsTest, ARequestThatTheEngineRefusesLeavesItsNameFree) {
  start();
  EngineRequest empty = request_of(1, 5, 3);
  empty.prompt_ids.clear();
  EXPECT_FALSE(resumable_->submit(engine_.get(), empty, {.name = {.owner = "", .id = "b"}}).ok());
  EXPECT_EQ(resumable_->find({.owner = "", .id = "b"}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(submit("b", 3).ok());
  EXPECT_EQ(submit("b", 3).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(ResumableStreamsTest, AStreamWithoutRoomIsCutOffAndFreesItsPages) {
  start({.max_bytes = 3 * kResumableStreamBytes});
  const auto resumable = submit("a", 240);
  ASSERT_TRUE(resumable.ok()) << resumable.status();
  size_t events = 0;
  const absl::Status status = finish(**resumable, &events);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_GT(events, 10u);
  EXPECT_LT(events, 240u);
  EXPECT_LE(resumable_->counts().bytes, 3 * kResumableStreamBytes);
  eventually([&] {
    const EngineStats stats = engine_->stats();
    return stats.running == 0 && stats.pages_free == stats.group.pages;
  });
  EXPECT_TRUE(submit("b", 3).ok()) << "its end makes room";
}

TEST_F(ResumableStreamsTest, AStreamCountsForItsKeyUntilItsEnd) {
  start();
  StepGate gate(cluster_);
  struct CountedPermit final : Permit {
    void end() override { ended = true; }
    std::atomic<bool> ended = false;
  };
  auto permit = std::make_shared<CountedPermit>();
  const auto resumable = submit("a", 30, permit);
  ASSERT_TRUE(resumable.ok()) << resumable.status();
  EXPECT_EQ(permit.use_count(), 2);
  EXPECT_FALSE(permit->ended);
  gate.open();
  size_t events = 0;
  EXPECT_TRUE(finish(**resumable, &events).ok());
  EXPECT_TRUE(permit->ended) << "a client that read the end may send the next";
  eventually([&] { return permit.use_count() == 1; });
}

TEST_F(ResumableStreamsTest, CancellingEndsAStreamAsCancelled) {
  start();
  StepGate gate(cluster_);
  const auto resumable = submit("a", 200);
  ASSERT_TRUE(resumable.ok()) << resumable.status();
  (*resumable)->cancel();
  gate.open();
  size_t events = 0;
  EXPECT_TRUE(finish(**resumable, &events).ok());
  EXPECT_LT(events, 200u);
  (*resumable)->cancel();  // Now a cancel has no effect.
}

TEST_F(ResumableStreamsTest, DrainingWaitsForAStream) {
  start();
  StepGate gate(cluster_);
  const auto resumable = submit("a", 200);
  ASSERT_TRUE(resumable.ok()) << resumable.status();
  engine_->drain(std::chrono::minutes(5));
  gate.open();
  EXPECT_TRUE(engine_->wait_end().ok()) << "though no client read it";
  size_t events = 0;
  EXPECT_TRUE(finish(**resumable, &events).ok());
  EXPECT_EQ(events, 200u);
}

TEST_F(ResumableStreamsTest, StoppingEndsAStream) {
  start();
  StepGate gate(cluster_);
  const auto stopped = submit("a", 200);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  engine_->stop();
  gate.open();
  size_t events = 0;
  EXPECT_TRUE(absl::IsCancelled(finish(**stopped, &events)));
}

// ThreadSanitizer checks this test for data races.
TEST_F(ResumableStreamsTest, ReadersMayComeAndGoWhileStreamsRunEndAndExpire) {
  start({.max_bytes = 40 * kResumableStreamBytes, .after_end_ms = 3});
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  std::atomic<int64_t> read = 0;
  for (unsigned i = 0; i < 3; ++i) {
    readers.emplace_back([&, i] {
      std::mt19937_64 random(i);
      while (!stop) {
        const auto resumable = resumable_->find({.owner = "", .id = std::to_string(random() % 50)});
        if (!resumable.ok()) continue;
        if (random() % 8 == 0) (*resumable)->cancel();
        auto reader = (*resumable)->log().open(0);
        if (!reader.ok()) continue;
        (*reader)->set_listener([&read] { ++read; });
        std::vector<StreamEvent> events;
        (*reader)->read(0, &events);
        if (random() % 2 == 0) (*reader)->abandon();
      }
    });
  }
  int begun = 0;
  for (int i = 0; i < 400; ++i) {
    ++now_ms_;
    begun += submit(std::to_string(i % 50), 1 + i % 40).ok() ? 1 : 0;
  }
  eventually([&] {
    const EngineStats stats = engine_->stats();
    return stats.running + stats.waiting == 0;
  });
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(begun, 20);
  eventually([&] {
    ++now_ms_;
    return resumable_->counts().streams == 0;
  });
  EXPECT_EQ(resumable_->counts().bytes, 0);
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace lockstep
