// SPDX-License-Identifier: Apache-2.0
// Requests that are refused because the queue is full or the server drains, are cancelled, or lose
// their workers.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "base/system/clock.h"
#include "tests/coordinator/openai/api_server.h"
#include "tests/coordinator/openai/bodies.h"
#include "tests/support/patience.h"

namespace lockstep::openai {
namespace {

TEST(OpenAiEndsTest, AFullQueueIs429AndADrainingServer503BeforeTheBodyIsRead) {
  EngineOptions options;
  options.max_waiting.requests = 1;
  options.max_running = 1;
  ApiServer server(options);
  StepGate gate(server.cluster());
  const auto running = server.send("POST", "/v1/completions", kStory.dump());
  EXPECT_TRUE(becomes_true([&] { return server.engine().stats().running > 0; }));
  const auto waiting = server.send("POST", "/v1/completions", kStory.dump());
  EXPECT_TRUE(becomes_true([&] { return !server.engine().accepting().ok(); }));
  const http::Response refused = server.post("/v1/chat/completions", "{");
  expect_error(refused, 429, nullptr, "rate_limit_exceeded", "the queue is full");
  EXPECT_EQ(OrderedJson::parse(refused.body)["error"]["type"], "rate_limit_error");
  EXPECT_EQ(header(refused, "Retry-After"), "1");
  server.engine().drain(std::chrono::milliseconds(60'000));
  const http::Response draining = server.post("/v1/chat/completions", "{");
  expect_error(draining, 503, nullptr, "service_unavailable", "draining");
  EXPECT_EQ(header(draining, "Retry-After"), "1");
  gate.open();
  EXPECT_EQ(running->wait().status, 200);
  EXPECT_EQ(waiting->wait().status, 200);
}

// Otherwise the answers to the batch's other prompts would be computed in vain.
TEST(OpenAiEndsTest, ABatchFailsAtOnceIfOneOfItsPromptsLosesItsPlaceInTheQueue) {
  EngineOptions options;
  options.max_waiting.requests = 4;
  options.max_running = 1;
  ApiServer server(options);
  server.cluster().hold(true);
  const OrderedJson prompts = {"Once", "Twice", "Three", "Four"};
  const auto batch = server.send("POST", "/v1/completions",
                                 with(kStory, {{"prompt", prompts}, {"max_tokens", 900}}).dump());
  EXPECT_TRUE(becomes_true([&] {
    const EngineStats stats = server.engine().stats();
    return stats.running == 1 && stats.waiting == 3;
  }));
  EngineRequest other;
  other.prompt_ids = {1, 2, 3};
  other.max_tokens = 5;
  other.client = "10.0.0.2:1";
  const auto fills = server.engine().submit(other);
  const auto displaces = server.engine().submit(other);
  ASSERT_TRUE(fills.ok() && displaces.ok()) << displaces.status();
  expect_error(batch->wait(), 429, nullptr, "rate_limit_exceeded", "newest requests are removed");
  server.cluster().hold(false);
  EXPECT_TRUE(becomes_true([&] {
    const EngineStats stats = server.engine().stats();
    return stats.running + stats.waiting == 0;
  }));
  EXPECT_LT(server.engine().stats().completion_tokens, 900);
}

TEST(OpenAiEndsTest, AClientThatGoesAwayCancels) {
  ApiServer server;
  for (const bool stream : {false, true}) {
    StepGate gate(server.cluster());
    const auto exchange =
        server.send("POST", "/v1/completions",
                    with(kStory, {{"max_tokens", 900}, {"n", 2}, {"stream", stream}}).dump());
    EXPECT_TRUE(becomes_true([&] { return server.engine().stats().running > 0; }));
    exchange->go();
    gate.open();
    EXPECT_TRUE(becomes_true([&] {
      const EngineStats stats = server.engine().stats();
      return stats.running == 0 && stats.pages_free == stats.group.pages;
    }));
    EXPECT_LT(server.engine().stats().completion_tokens, 900);
    EXPECT_EQ(exchange->is_answered(), stream);
  }
}

TEST(OpenAiEndsTest, ClientsThatGoAtAnyMomentLeakNothing) {
  ApiServer server;
  for (int i = 0; i < 200; ++i) {
    const auto exchange = server.send(
        "POST", i % 2 == 0 ? "/v1/completions" : "/v1/chat/completions",
        with(i % 2 == 0 ? kStory : kTalk, {{"max_tokens", 200}, {"stream", i % 3 != 0}}).dump());
    std::string bytes;
    if (i % 3 != 0 && i % 5 > 1) exchange->wait_head();
    for (int reads = i % 5; reads > 2; --reads) exchange->read_more(&bytes);
    exchange->go();
  }
  EXPECT_TRUE(becomes_true([&] {
    const EngineStats stats = server.engine().stats();
    return stats.running + stats.waiting == 0 && stats.pages_free == stats.group.pages;
  }));
  EXPECT_TRUE(server.cluster().broken_rules().empty());
}

// A request to /v1/completions with this timeout.
std::shared_ptr<FakeExchange> send_with_timeout(ApiServer& server, const std::string& ms,
                                                const OrderedJson& body) {
  return server.send("POST", "/v1/completions", body.dump(), "", {{"X-Request-Timeout-Ms", ms}});
}

TEST(OpenAiEndsTest, ADeadlineThatPassesInTheQueueIs408StreamedOrNot) {
  for (const bool stream : {false, true}) {
    EngineOptions options;
    options.max_running = 1;
    ApiServer server(options);
    StepGate gate(server.cluster());
    const auto running = server.send("POST", "/v1/completions", kStory.dump());
    EXPECT_TRUE(becomes_true([&] { return server.engine().stats().running > 0; }));
    const auto late = send_with_timeout(server, "1", with(kStory, {{"stream", stream}}));
    const int64_t now = steady_now_ms();
    EXPECT_TRUE(becomes_true([&] { return steady_now_ms() > now + 1; }));
    gate.open();
    expect_error(late->wait(), 408, nullptr, "deadline_exceeded", "the request's deadline passed");
    EXPECT_EQ(running->wait().status, 200);
  }
}

TEST(OpenAiEndsTest, ADeadlineThatPassesBeforeTheBodyIsReadIs408AtOnce) {
  Mutex held;  // While it is held, all threads of the pool are busy.
  std::atomic<int> arrived = 0;
  ApiServer server;
  held.lock();
  for (int i = 0; i < 6; ++i) {
    const auto wait = [&] {
      ++arrived;
      const MutexLock lock(&held);
    };
    EXPECT_TRUE(server.pool().submit("other", 0, wait).ok());
  }
  EXPECT_TRUE(becomes_true([&] { return arrived == 4; }));
  const auto late = send_with_timeout(server, "20", kStory);
  expect_error(late->wait(), 408, nullptr, "deadline_exceeded", "the request's deadline passed");
  held.unlock();
}

// The client's other tasks fill its share of the pool while its answer is computed.
TEST(OpenAiEndsTest, ALargeAnswerThatThePoolRefusesIs429) {
  for (const bool is_large : {false, true}) {
    Mutex held;  // While it is held, all threads of the pool are busy.
    ApiServer server;
    StepGate gate(server.cluster());
    const OrderedJson more = {{"n", 2}, {"max_tokens", 100}, {"logprobs", 20}};
    const OrderedJson body = with(kStory, is_large ? more : OrderedJson::object());
    const auto exchange = server.send("POST", "/v1/completions", body.dump());
    EXPECT_TRUE(becomes_true([&] { return server.engine().stats().running > 0; }));
    held.lock();
    while (server.pool().submit(exchange->client(), 0, [&] { const MutexLock lock(&held); }).ok()) {
    }
    gate.open();
    if (is_large) {
      expect_error(exchange->wait(), 429, nullptr, "rate_limit_exceeded", "");
    } else {
      EXPECT_EQ(exchange->wait().status, 200);
    }
    held.unlock();
  }
}

TEST(OpenAiEndsTest, ADeadlineThatPassesWithinAStreamIsItsLastEvent) {
  ApiServer server;
  std::atomic<int> steps = 0;
  std::atomic<int64_t> until_ms = 0;
  server.cluster().set_hook([&](const cluster::Step& step) {
    if (step.sequences_size() > 0 && ++steps == 3) {
      EXPECT_TRUE(becomes_true([&] { return steady_now_ms() > until_ms; }));
    }
    return absl::OkStatus();
  });
  until_ms = steady_now_ms() + 60'000;
  const auto exchange =
      send_with_timeout(server, "400", with(kStory, {{"stream", true}, {"max_tokens", 900}}));
  until_ms = steady_now_ms() + 400;
  const http::Response response = exchange->wait();
  // If the machine is too slow for two steps in that time, the whole answer is a 408.
  if (response.status == 408) return;
  EXPECT_EQ(response.status, 200);
  const std::vector<SseEvent> events = events_of(response.body);
  EXPECT_EQ(OrderedJson::parse(events.back().data)["error"]["code"], "deadline_exceeded");
  EXPECT_GT(events.size(), 1u);
}

TEST(OpenAiEndsTest, ADeadlineInTimeChangesNothing) {
  ApiServer server;
  const http::Response plain = server.post("/v1/completions", kStory.dump());
  const http::Response timed = send_with_timeout(server, "86400000", kStory)->wait();
  EXPECT_EQ(timed.status, 200);
  EXPECT_EQ(OrderedJson::parse(timed.body)["choices"], OrderedJson::parse(plain.body)["choices"]);
  const OrderedJson streamed = with(kStory, {{"stream", true}});
  const http::Response timed_stream = send_with_timeout(server, "86400000", streamed)->wait();
  EXPECT_EQ(events_of(timed_stream.body).size(),
            events_of(server.post("/v1/completions", streamed.dump()).body).size());
}

TEST(OpenAiEndsTest, AnInvalidTimeoutIs400) {
  ApiServer server;
  for (const char* bad : {"0", "-1", "1.5", "soon", "86400001", "99999999999999999999"}) {
    expect_error(send_with_timeout(server, bad, kStory)->wait(), 400, nullptr, nullptr,
                 "X-Request-Timeout-Ms: must be 1 to 86400000");
  }
}

TEST(OpenAiEndsTest, ClientsThatGoBeforeTheirDeadlineLeakNothing) {
  ApiServer server;
  for (int i = 0; i < 100; ++i) {
    const auto exchange = send_with_timeout(server, std::to_string(1 + i % 20),
                                            with(kStory, {{"stream", true}, {"max_tokens", 200}}));
    if (i % 3 == 0) exchange->wait_head();
    exchange->go();
  }
  EXPECT_TRUE(becomes_true([&] {
    const EngineStats stats = server.engine().stats();
    return stats.running + stats.waiting == 0 && stats.pages_free == stats.group.pages;
  }));
}

TEST(OpenAiEndsTest, AFaultIs500BeforeTheAnswerAndAnEventWithinIt) {
  for (const bool stream : {false, true}) {
    ApiServer server;
    std::atomic<int> steps = 0;
    server.cluster().set_hook([&](const cluster::Step&) -> absl::Status {
      return ++steps > 5 ? absl::UnavailableError("rank 1 was lost") : absl::OkStatus();
    });
    const http::Response response =
        server.post("/v1/completions", with(kStory, {{"stream", stream}}).dump());
    if (!stream) {
      expect_error(response, 500, nullptr, "internal_error", "rank 1 was lost");
      continue;
    }
    EXPECT_EQ(response.status, 200);
    const std::vector<SseEvent> events = events_of(response.body);
    const OrderedJson error = OrderedJson::parse(events.back().data)["error"];
    EXPECT_EQ(error["code"], "internal_error");
    EXPECT_NE(error["message"].get<std::string>().find("rank 1 was lost"), std::string::npos);
  }
}

TEST(OpenAiEndsTest, AnAnswerNamesTheStopThatEndedIt) {
  ApiServer server;
  const OrderedJson choice = server.post_json("/v1/completions", kStory)["choices"][0];
  EXPECT_TRUE(choice.at("stop_reason").is_null());
  EXPECT_TRUE(choice.at("matched_stop").is_null());
  const std::string text = choice["text"];
  const std::string stop = text.substr(text.size() / 2, 3);
  const OrderedJson by_text =
      server.post_json("/v1/completions", with(kStory, {{"stop", {"zzz", stop}}}))["choices"][0];
  EXPECT_EQ(by_text["finish_reason"], "stop");
  EXPECT_EQ(by_text["stop_reason"], stop);
  EXPECT_EQ(by_text["matched_stop"], stop);
  std::vector<int> all(server.model().config().vocab_size);
  std::iota(all.begin(), all.end(), 0);
  all.resize(1024);
  const OrderedJson by_id =
      server.post_json("/v1/completions",
                       with(kStory, {{"stop_token_ids", all}, {"max_tokens", 200}}))["choices"][0];
  EXPECT_EQ(by_id["finish_reason"], "stop");
  EXPECT_TRUE(by_id["stop_reason"].is_number_integer()) << by_id;
}

}  // namespace
}  // namespace lockstep::openai
