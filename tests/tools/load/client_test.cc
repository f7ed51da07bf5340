// SPDX-License-Identifier: Apache-2.0
#include "tools/load/client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "tests/tools/load/fake_openai.h"

namespace lockstep {
namespace {

using testing::FakeAnswer;
using testing::FakeFault;
using testing::FakeOpenAi;
using testing::FakeRequest;

FakeAnswer well(const FakeRequest&) { return {}; }

LoadOptions options_for(const FakeOpenAi& server) {
  return {.url = *parse_url("--url", server.url()), .timeout_s = 100};
}

std::vector<LoadRecord> run(LoadOptions options, WorkloadOptions workload_options) {
  workload_options.prompt_tokens = Lengths(4);
  Workload workload(std::move(workload_options));
  LoadClient client(std::move(options));
  const absl::Status status = client.prepare();
  EXPECT_TRUE(status.ok()) << status;
  return client.run(workload, [](const LoadProgress&) {});
}

// The record of one request with this answer.
LoadRecord record_of(const FakeAnswer& answer, double timeout_s = 100) {
  const FakeOpenAi server([&](const FakeRequest&) { return answer; });
  LoadOptions options = options_for(server);
  options.concurrency = 1;
  options.timeout_s = timeout_s;
  const auto records = run(options, {.output_tokens = Lengths(3), .requests = 1});
  EXPECT_EQ(records.size(), 1u);
  return records.empty() ? LoadRecord{} : records[0];
}

TEST(LoadClientTest, AnAnswerIsCountedAndTimed) {
  for (const bool byte_by_byte : {false, true}) {
    const LoadRecord record = record_of({.byte_by_byte = byte_by_byte});
    EXPECT_EQ(record.failure, "") << record.detail;
    EXPECT_EQ(record.text_events, 3);
    EXPECT_EQ(record.output_tokens, 3);
    EXPECT_EQ(record.prompt_tokens, 7);
    EXPECT_EQ(record.gaps_ms.size(), 2u);
    EXPECT_LE(record.scheduled_s, record.sent_s);
    EXPECT_LE(record.sent_s, record.first_text_s);
    EXPECT_LE(record.first_text_s, record.last_text_s);
    EXPECT_LE(record.last_text_s, record.end_s);
  }
}

TEST(LoadClientTest, RequestsContainTheOptions) {
  const FakeOpenAi server(well);
  LoadOptions options = options_for(server);
  options.concurrency = 1;
  options.api_key = "secret";
  options.endpoint = Endpoint::kChat;
  options.extra = {{"ignore_eos", true}};
  run(options, {.output_tokens = Lengths(5), .requests = 1});
  const std::vector<FakeRequest> requests = server.requests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].target, "/v1/chat/completions");
  EXPECT_NE(requests[0].head.find("Authorization: Bearer secret\r\n"), std::string::npos);
  EXPECT_EQ(requests[0].body["model"], "fake");  // The first model that the server listed.
  EXPECT_EQ(requests[0].body["max_tokens"], 5);
  EXPECT_EQ(requests[0].body["ignore_eos"], true);
  EXPECT_EQ(requests[0].body["messages"][0]["role"], "user");
}

TEST(LoadClientTest, EveryFailureHasItsKind) {
  const std::pair<FakeAnswer, const char*> cases[] = {
      {{.status = 429, .body = R"({"error": {"message": "queue full"}})"}, "HTTP 429"},
      {{.status = 307}, "HTTP 307"},
      {{.content_type = "application/json", .body = "{}"}, "no stream"},
      {{.fault = FakeFault::kCut}, "cut off"},
      {{.fault = FakeFault::kErrorEvent}, "error event"},
      {{.fault = FakeFault::kNoise}, "no answer"}};
  for (const auto& [answer, kind] : cases) {
    const LoadRecord record = record_of(answer);
    EXPECT_EQ(record.failure, kind) << record.detail;
    EXPECT_GE(record.end_s, record.sent_s);
  }
  EXPECT_EQ(record_of(cases[0].first).detail, "queue full");
  EXPECT_EQ(record_of(cases[4].first).detail, "lost rank 1");
}

TEST(LoadClientTest, ASilentServerTimesOut) {
  const LoadRecord record = record_of({.fault = FakeFault::kSilence}, 0.05);
  EXPECT_EQ(record.failure, "timeout");
  EXPECT_GE(record.end_s - record.sent_s, 0.05);
}

TEST(LoadClientTest, AServerThatReadsNothingTimesOut) {
  // The kernel completes connections to this port, but no process accepts and reads them.
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  LoadOptions options{.model = "m", .concurrency = 1, .timeout_s = 0.2};
  options.url = *parse_url("--url", fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port)));
  const auto records = run(options, {.prompts = {std::string(64 << 20, 'a')}, .requests = 1});
  close(listener);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].failure, "timeout") << records[0].detail;
}

TEST(LoadClientTest, ALongErrorIsReadUpToALimit) {
  const LoadRecord record = record_of({.status = 500, .body = std::string(10 << 20, 'x')});
  EXPECT_EQ(record.failure, "HTTP 500");
  EXPECT_LE(record.detail.size(), 120u);
}

TEST(LoadClientTest, OpenArrivalsDoNotWaitForAnswers) {
  // No request is answered before all have arrived: a client that waited for answers would hang.
  Mutex mutex;
  ConditionVariable all_there;
  int there = 0;
  const FakeOpenAi server([&](const FakeRequest&) {
    MutexLock lock(&mutex);
    if (++there == 40) all_there.notify_all();
    while (there < 40) all_there.wait(&mutex);
    return FakeAnswer{};
  });
  const auto records =
      run(options_for(server), {.rate = 1000, .output_tokens = Lengths(2), .requests = 40});
  ASSERT_EQ(records.size(), 40u);
  double last_sent_s = 0, first_end_s = 1e9;
  for (const LoadRecord& record : records) {
    EXPECT_EQ(record.failure, "") << record.detail;
    last_sent_s = std::max(last_sent_s, record.sent_s);
    first_end_s = std::min(first_end_s, record.end_s);
  }
  EXPECT_LT(last_sent_s, first_end_s);
}

TEST(LoadClientTest, ArrivalsFollowTheWorkload) {
  const FakeOpenAi server(well);
  WorkloadOptions workload{.rate = 500, .output_tokens = Lengths(1), .requests = 20};
  workload.prompt_tokens = Lengths(4);
  std::vector<LoadRecord> records = run(options_for(server), workload);
  std::ranges::sort(records, {}, &LoadRecord::scheduled_s);
  Workload same(workload);
  for (const LoadRecord& record : records) {
    EXPECT_EQ(record.scheduled_s, same.next()->at_s);
    EXPECT_GE(record.sent_s, record.scheduled_s);
  }
}

TEST(LoadClientTest, AClosedLoopHasAtMostItsConcurrencyInFlight) {
  std::atomic<int> now = 0, max = 0;
  const FakeOpenAi server([&](const FakeRequest&) {
    const int count = ++now;
    for (int seen = max; count > seen && !max.compare_exchange_weak(seen, count);) {
    }
    std::this_thread::yield();
    --now;
    return FakeAnswer{};
  });
  LoadOptions options = options_for(server);
  options.concurrency = 3;
  const auto records = run(options, {.output_tokens = Lengths(2), .requests = 30});
  EXPECT_EQ(records.size(), 30u);
  EXPECT_LE(max, 3);
  EXPECT_LE(server.connections(), 4);  // Connections are kept and reused.
}

TEST(LoadClientTest, NoRequestFailsIfTheServerClosesAnIdleConnection) {
  const FakeOpenAi server(
      [&](const FakeRequest&) { return FakeAnswer{.fault = FakeFault::kLeave}; });
  LoadOptions options = options_for(server);
  options.concurrency = 2;
  const auto records = run(options, {.output_tokens = Lengths(2), .requests = 40});
  ASSERT_EQ(records.size(), 40u);
  for (const LoadRecord& record : records) EXPECT_EQ(record.failure, "") << record.detail;
}

TEST(LoadClientTest, NothingIsSentAfterTheDuration) {
  const FakeOpenAi server(well);
  LoadOptions options = options_for(server);
  options.duration_s = 0.1;
  const WorkloadOptions arrivals{.rate = 200, .output_tokens = Lengths(1)};
  size_t in_time = 0;
  for (Workload same(arrivals); same.next()->at_s < 0.1;) ++in_time;
  EXPECT_EQ(run(options, arrivals).size(), in_time);
  options.concurrency = 2;  // Without a number of requests the duration ends it.
  for (const LoadRecord& record : run(options, {.output_tokens = Lengths(1)})) {
    EXPECT_LT(record.scheduled_s, 0.1);
  }
}

TEST(LoadClientTest, StopAbandonsRequestsInFlight) {
  std::atomic<int> asked = 0;
  const FakeOpenAi server([&](const FakeRequest&) {
    return FakeAnswer{.fault = ++asked > 5 ? FakeFault::kSilence : FakeFault::kNone};
  });
  Workload workload({.output_tokens = Lengths(1), .requests = 100});
  LoadOptions options = options_for(server);
  options.concurrency = 4;
  LoadClient client(options);
  ASSERT_TRUE(client.prepare().ok());
  const auto records = client.run(workload, [&](const LoadProgress& progress) {
    if (progress.answered == 5 && progress.in_flight == 4) client.stop();
  });
  EXPECT_EQ(records.size(), 5u);
  EXPECT_EQ(client.in_flight(), 4);
}

TEST(LoadClientTest, AMissingServerIsNamed) {
  std::string url;
  {
    const FakeOpenAi server(well);
    url = server.url();
  }
  LoadOptions options{.url = *parse_url("--url", url)};
  LoadClient client(options);
  const absl::Status status = client.prepare();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(message_of(status).find(url), std::string::npos) << status;
  options.model = "fake";
  options.concurrency = 1;
  const auto records = run(options, {.requests = 2});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].failure, "no connection");
}

}  // namespace
}  // namespace lockstep
