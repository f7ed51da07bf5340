// SPDX-License-Identifier: Apache-2.0
// Resumable requests of a real engine: they run on, end, make room and expire.
#include "coordinator/streams/kept_streams.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/coordinator/helpers.h"

namespace lockstep {
namespace {

constexpr int64_t kMinute = 60'000;

class KeptStreamsTest : public ::testing::Test {
 protected:
  KeptStreamsTest() : cluster_(FakeModel{}) {}
  void start(const KeptOptions& options = {}) {
    kept_ = std::make_unique<KeptStreams>(options, [this] { return now_ms_.load(); });
    engine_ = std::make_unique<Engine>(&cluster_, nullptr, EngineOptions{});
    EXPECT_TRUE(engine_->wait_ready().ok());
  }
  absl::StatusOr<std::shared_ptr<KeptStream>> submit(const std::string& id, int32_t max_tokens,
                                                     std::shared_ptr<Pass> pass = nullptr) {
    return kept_->submit(engine_.get(), request_of(1, 5, max_tokens),
                         {.name = {.owner = "", .id = id}, .pass = std::move(pass)});
  }
  // Reads a log to its end and returns its status.
  static absl::Status finish(KeptStream& kept, size_t* events) {
    auto reader = kept.log().open(0);
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
  std::unique_ptr<KeptStreams> kept_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(KeptStreamsTest, AStreamRunsWithoutAReaderAndIsReadAfterItsEnd) {
  start();
  const auto kept = submit("a", 30);
  ASSERT_TRUE(kept.ok()) << kept.status();
  eventually([&] { return engine_->stats().completion_tokens == 30; });
  size_t events = 0;
  EXPECT_TRUE(finish(**kept, &events).ok());
  EXPECT_EQ(events, 30u);
  ASSERT_TRUE(kept_->find({.owner = "", .id = "a"}).ok());
  EXPECT_EQ(kept_->counts().streams, 1);
  eventually([&] {  // The index knows that it ended.
    now_ms_ += kMinute;
    return kept_->find({.owner = "", .id = "a"}).status() == kept_log_is_gone();
  });
  EXPECT_EQ(kept_->counts().bytes, 0);
  eventually([&] { return (*kept)->log().open(0).status() == kept_log_is_gone(); });
}

TEST_F(KeptStreamsTest, ARequestThatTheEngineRefusesLeavesItsNameFree) {
  start();
  Request empty = request_of(1, 5, 3);
  empty.prompt_ids.clear();
  EXPECT_FALSE(kept_->submit(engine_.get(), empty, {.name = {.owner = "", .id = "b"}}).ok());
  EXPECT_EQ(kept_->find({.owner = "", .id = "b"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(submit("b", 3).ok());
  EXPECT_EQ(submit("b", 3).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(KeptStreamsTest, AStreamWithoutRoomIsCutOffAndFreesItsPages) {
  start({.max_bytes = 3 * kKeptStreamBytes});
  const auto kept = submit("a", 240);
  ASSERT_TRUE(kept.ok()) << kept.status();
  size_t events = 0;
  const absl::Status status = finish(**kept, &events);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_GT(events, 10u);
  EXPECT_LT(events, 240u);
  EXPECT_LE(kept_->counts().bytes, 3 * kKeptStreamBytes);
  eventually([&] {
    const EngineStats stats = engine_->stats();
    return stats.running == 0 && stats.pages_free == stats.group.pages;
  });
  EXPECT_TRUE(submit("b", 3).ok()) << "its end makes room";
}

TEST_F(KeptStreamsTest, AStreamCountsForItsKeyUntilItsEnd) {
  start();
  StepGate gate(cluster_);
  struct CountedPass final : Pass {
    void end() override { ended = true; }
    std::atomic<bool> ended = false;
  };
  auto pass = std::make_shared<CountedPass>();
  const auto kept = submit("a", 30, pass);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(pass.use_count(), 2);
  EXPECT_FALSE(pass->ended);
  gate.open();
  size_t events = 0;
  EXPECT_TRUE(finish(**kept, &events).ok());
  EXPECT_TRUE(pass->ended) << "a client that read the end may send the next";
  eventually([&] { return pass.use_count() == 1; });
}

TEST_F(KeptStreamsTest, CancellingEndsAStreamWithThatReason) {
  start();
  StepGate gate(cluster_);
  const auto kept = submit("a", 200);
  ASSERT_TRUE(kept.ok()) << kept.status();
  (*kept)->cancel();
  gate.open();
  size_t events = 0;
  EXPECT_TRUE(finish(**kept, &events).ok());
  EXPECT_LT(events, 200u);
  (*kept)->cancel();  // It has no effect.
}

TEST_F(KeptStreamsTest, DrainingWaitsForAStream) {
  start();
  StepGate gate(cluster_);
  const auto kept = submit("a", 200);
  ASSERT_TRUE(kept.ok()) << kept.status();
  engine_->drain(std::chrono::minutes(5));
  gate.open();
  EXPECT_TRUE(engine_->wait_end().ok()) << "though no client read it";
  size_t events = 0;
  EXPECT_TRUE(finish(**kept, &events).ok());
  EXPECT_EQ(events, 200u);
}

TEST_F(KeptStreamsTest, StoppingEndsAStream) {
  start();
  StepGate gate(cluster_);
  const auto stopped = submit("a", 200);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  engine_->stop();
  gate.open();
  size_t events = 0;
  EXPECT_TRUE(absl::IsCancelled(finish(**stopped, &events)));
}

// ThreadSanitizer checks it for data races.
TEST_F(KeptStreamsTest, ReadersMayComeAndGoWhileStreamsRunEndAndExpire) {
  start({.max_bytes = 40 * kKeptStreamBytes, .after_end_ms = 3});
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  std::atomic<int64_t> read = 0;
  for (unsigned i = 0; i < 3; ++i) {
    readers.emplace_back([&, i] {
      std::mt19937_64 random(i);
      while (!stop) {
        const auto kept = kept_->find({.owner = "", .id = std::to_string(random() % 50)});
        if (!kept.ok()) continue;
        if (random() % 8 == 0) (*kept)->cancel();
        auto reader = (*kept)->log().open(0);
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
    return kept_->counts().streams == 0;
  });
  EXPECT_EQ(kept_->counts().bytes, 0);
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace lockstep
