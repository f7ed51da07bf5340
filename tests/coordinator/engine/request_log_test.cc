// SPDX-License-Identifier: Apache-2.0
// The line that the log has for each request, and the fields of this line.
#include "coordinator/engine/request_log.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <sstream>
#include <thread>

#include "base/log.h"
#include "tests/coordinator/helpers.h"

namespace lockstep {
namespace {

constexpr int64_t kMs = 1'000'000;

class RequestLogTest : public ::testing::Test {
 protected:
  RequestLogTest() {
    EXPECT_EQ(pipe(pipe_.data()), 0);
    spdlog::set_level(spdlog::level::info);
    log_.emplace(
        Log::Options{.format = LogFormat::kJson, .background = true, .descriptor = pipe_[1]});
    request_ = request_of(1, 30, 4);
    request_.id = "cmpl-1";
    request_.client = "alice";
    request_.endpoint = "/v1/completions";
  }
  ~RequestLogTest() override {
    spdlog::set_level(spdlog::level::warn);
    close(pipe_[0]);
  }

  std::vector<OrderedJson> lines() {
    log_.reset();
    close(pipe_[1]);
    std::string text;
    std::array<char, 4096> bytes;
    for (ssize_t got = 1; (got = read(pipe_[0], bytes.data(), bytes.size())) > 0;) {
      text.append(bytes.data(), static_cast<size_t>(got));
    }
    std::vector<OrderedJson> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(OrderedJson::parse(line));
    return lines;
  }

  std::array<int, 2> pipe_ = {};
  std::optional<Log> log_;
  RequestLog requests_;
  EngineRequest request_;
  Stream stream_;
};

TEST_F(RequestLogTest, ARefusalHasOneLineAtInfoAndNoneAbove) {
  log_refused("alice", "/v1/completions", "", absl::ResourceExhaustedError("the queue is full"));
  spdlog::set_level(spdlog::level::warn);
  log_refused("bob", "/v1/completions", "", absl::ResourceExhaustedError("the queue is full"));
  const std::vector<OrderedJson> lines = this->lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["client"], "alice");
  EXPECT_EQ(lines[0]["endpoint"], "/v1/completions");
  EXPECT_EQ(lines[0]["status"], "RESOURCE_EXHAUSTED");
  EXPECT_EQ(lines[0]["refused"], true);
  EXPECT_FALSE(lines[0].contains("traceparent"));
}

TEST_F(RequestLogTest, RefusalsWithoutAKeyShareALine) {
  for (int i = 0; i < 1000; ++i) {
    log_refused("192.0.2.1", "/v1/models", "", absl::UnauthenticatedError("an API key: missing"));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1001));
  log_refused("192.0.2.1", "/v1/models", "", absl::UnauthenticatedError("an API key: missing"));
  const std::vector<OrderedJson> lines = this->lines();
  ASSERT_GE(lines.size(), 2u);
  ASSERT_LT(lines.size(), 100u);
  int64_t refusals = 0;
  for (const OrderedJson& line : lines) refusals += line.value("refusals", 1);
  EXPECT_EQ(refusals, 1001);
}

TEST_F(RequestLogTest, ALineHasTheClientTheEndAndTheTimes) {
  request_.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  requests_.on_submitted(&stream_, request_, 0);
  requests_.on_started(&stream_, 20 * kMs);
  StreamEvent event = {.token_ids = {7}, .text = "secret"};
  requests_.on_event(&stream_, event, 50 * kMs);
  event.finish_reason = FinishReason::kStop;
  event.cached_tokens = 16;
  requests_.on_event(&stream_, event, 90 * kMs);
  requests_.on_closed(&stream_, absl::OkStatus(), 100 * kMs + 1'500);
  const std::vector<OrderedJson> all = lines();
  ASSERT_EQ(all.size(), 1u);
  OrderedJson line = all[0];
  line.erase("time");
  EXPECT_EQ(line.dump(),
            R"({"level":"info","message":"request","id":"cmpl-1","client":"alice",)"
            R"("endpoint":"/v1/completions","status":"OK","finish_reason":"stop","choices":1,)"
            R"("prompt_tokens":30,"completion_tokens":2,"cached_tokens":16,"queue_ms":20.0,)"
            R"("ttft_ms":50.0,"total_ms":100.002,)"
            R"("traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})");
}

TEST_F(RequestLogTest, ARequestThatNeverRanHasNoTimesOfTokens) {
  requests_.on_submitted(&stream_, request_, 0);
  requests_.on_closed(&stream_, absl::DeadlineExceededError("late"), 7 * kMs);
  const std::vector<OrderedJson> all = lines();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["status"], "DEADLINE_EXCEEDED");
  EXPECT_EQ(all[0]["total_ms"], 7.0);
  for (const char* absent : {"queue_ms", "ttft_ms", "traceparent"}) {
    EXPECT_FALSE(all[0].contains(absent)) << absent;
  }
}

TEST_F(RequestLogTest, NothingIsLoggedAboveInfo) {
  spdlog::set_level(spdlog::level::warn);
  requests_.on_submitted(&stream_, request_, 0);
  spdlog::set_level(spdlog::level::info);
  requests_.on_closed(&stream_, absl::OkStatus(), kMs);
  EXPECT_TRUE(lines().empty());
}

}  // namespace
}  // namespace lockstep
