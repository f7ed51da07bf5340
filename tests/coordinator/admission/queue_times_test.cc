// SPDX-License-Identifier: Apache-2.0
// Estimates of waits in a queue that is served at a known rate, on virtual time.
#include "coordinator/admission/queue_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "base/status.h"
#include "coordinator/admission/admission.h"
#include "tests/coordinator/helpers.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

EngineRequest of(const std::string& client, int32_t priority = 0, int64_t deadline_ms = 0) {
  EngineRequest request = request_of(1, 3, 4);
  request.client = client;
  request.priority = priority;
  request.deadline_ms = deadline_ms;
  return request;
}

// A queue in which one request begins every 10 ms.
class QueueTimesTest : public ::testing::Test {
 protected:
  void come(const EngineRequest& request, int count = 1) {
    for (int i = 0; i < count; ++i) {
      streams_.push_back(std::make_unique<Stream>());
      times_.on_submitted(streams_.back().get(), request, now_ns_);
      waiting_.push_back(streams_.back().get());
    }
  }
  // Advances the clock by `ms`; the oldest requests begin first.
  void pass(int64_t ms) {
    for (; ms > 0; ms -= 10) {
      now_ns_ += 10 * kMs;
      if (waiting_.empty()) continue;
      times_.on_started(waiting_.front(), now_ns_);
      waiting_.pop_front();
    }
  }
  int64_t wait_ms(const EngineRequest& request) const { return times_.wait_ms(request, now_ns_); }
  int64_t now_ms() const { return now_ns_ / kMs; }

  QueueTimes times_{60'000};
  int64_t now_ns_ = 1'000'000 * kMs;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::deque<const Stream*> waiting_;
};

TEST_F(QueueTimesTest, ARequestThatWaitsForALargerGroupDelaysNoOther) {
  come(of("a"), 20);
  pass(300);
  come(of("b"));
  times_.on_set_aside(waiting_.back());
  waiting_.pop_back();
  pass(50'000);
  EXPECT_EQ(wait_ms(of("c")), 0);
  come(of("d"));
  EXPECT_LE(wait_ms(of("c")), 20);
}

TEST_F(QueueTimesTest, AnEmptyOrUnknownQueueMeansNoWait) {
  EXPECT_EQ(wait_ms(of("a")), 0);
  come(of("a"), 5000);
  EXPECT_TRUE(times_.check(of("b", 0, now_ms() + 1), now_ns_).ok()) << "nothing has begun yet";
  pass(60'000);
  EXPECT_EQ(waiting_.size(), 0u);
  EXPECT_EQ(wait_ms(of("a")), 0);
}

TEST_F(QueueTimesTest, TheWaitIsTheTimeOfEarlierRequests) {
  for (int i = 0; i < 2000; ++i) come(of(std::to_string(i)));
  pass(1000);
  EXPECT_NEAR(wait_ms(of("new")), 19'000, 500);
  pass(10'000);
  EXPECT_NEAR(wait_ms(of("new")), 9'000, 500);
  now_ns_ += 5'000 * kMs;  // No request begins any more.
  EXPECT_GT(wait_ms(of("new")), 12'000);
}

TEST_F(QueueTimesTest, AClientWithManyRequestsDelaysOnlyItself) {
  come(of("many"), 1000);
  come(of("few"), 10);
  pass(100);
  EXPECT_NEAR(wait_ms(of("new")), 20, 5) << "one request of each client";
  EXPECT_NEAR(wait_ms(of("few")), 10 * (10 + 11), 20);
  EXPECT_NEAR(wait_ms(of("many")), 10 * (990 + 10), 50);
}

TEST_F(QueueTimesTest, ARequestWaitsOnlyForThoseOfBetterOrEqualPriority) {
  for (int i = 0; i < 100; ++i) come(of(std::to_string(i), /*priority=*/0));
  for (int i = 0; i < 300; ++i) come(of(std::to_string(i), /*priority=*/5));
  pass(100);
  EXPECT_EQ(wait_ms(of("new", -1)), 0);
  EXPECT_NEAR(wait_ms(of("new", 0)), 900, 20);
  EXPECT_NEAR(wait_ms(of("new", 5)), 3900, 80);
}

TEST_F(QueueTimesTest, ARequestThatWouldBeginTooLateIsRefusedWithARetryTime) {
  for (int i = 0; i < 2000; ++i) come(of(std::to_string(i)));
  pass(1000);  // A new request would wait for 19 s.
  EXPECT_TRUE(times_.check(of("new"), now_ns_).ok());
  EXPECT_TRUE(times_.check(of("new", 0, now_ms() + 25'000), now_ns_).ok());
  EXPECT_EQ(times_.refused(), 0);
  const absl::Status late = times_.check(of("new", 0, now_ms() + 5'000), now_ns_);
  EXPECT_EQ(late.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(message_of(late), HasSubstr("this one's deadline is in 5 s"));
  EXPECT_NEAR(retry_after_of(late), 14, 1);
  for (int i = 2000; i < 10'000; ++i) come(of(std::to_string(i)));
  const absl::Status full = times_.check(of("new"), now_ns_);
  EXPECT_THAT(message_of(full), HasSubstr("the max is 60 s"));
  EXPECT_NEAR(retry_after_of(full), 39, 2);
  EXPECT_EQ(times_.refused(), 2);
  EXPECT_EQ(retry_after_of(absl::ResourceExhaustedError("full")), 1);
}

TEST_F(QueueTimesTest, ARequestThatLeavesBeforeItBeginsCountsNoMore) {
  for (int i = 0; i < 500; ++i) come(of(std::to_string(i)));
  pass(1000);
  for (const Stream* stream : waiting_) times_.on_closed(stream, absl::OkStatus(), now_ns_);
  EXPECT_EQ(wait_ms(of("new")), 0);
  times_.on_closed(streams_[0].get(), absl::OkStatus(), now_ns_);  // This request had begun.
  EXPECT_EQ(wait_ms(of("new")), 0);
}

}  // namespace
}  // namespace lockstep
