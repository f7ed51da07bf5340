// SPDX-License-Identifier: Apache-2.0
// Streams that are cut anywhere and resumed: the joined parts equal the uncut stream.
#include "coordinator/openai/answers/resumption.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/coordinator/openai/api_server.h"
#include "tests/coordinator/openai/bodies.h"
#include "tests/fuzz/resume_input.h"
#include "tests/support/patience.h"

namespace lockstep::openai {
namespace {

constexpr char kStream[] = "/v1/streams/{request}";
const OrderedJson kInput = {{"input", "Once upon a time"}, {"max_output_tokens", 20}, {"seed", 1}};

OrderedJson resumable(const OrderedJson& body, const OrderedJson& more = OrderedJson::object()) {
  return with(with(body, {{"stream", true}, {"resumable", true}}), more);
}

std::string with_query(const std::string& path, const std::string& query) {
  return query.empty() ? path : path + "?" + query;
}

std::shared_ptr<FakeExchange> call(ApiServer& server, const std::string& method,
                                   const std::string& id, const std::string& query = {},
                                   const std::string& last_event_id = {}) {
  http::Headers headers;
  if (!last_event_id.empty()) headers.emplace_back("Last-Event-ID", last_event_id);
  return server.hand_over(
      kStream,
      std::make_shared<FakeExchange>(method, with_query("/v1/streams/" + id, query), "",
                                     std::move(headers)),
      {{"request", id}});
}

std::shared_ptr<FakeExchange> post(ApiServer& server, const std::string& path,
                                   const OrderedJson& body, const std::string& id = {}) {
  http::Headers headers;
  if (!id.empty()) headers.emplace_back("x-request-id", id);
  return server.hand_over(
      path, std::make_shared<FakeExchange>("POST", path, body.dump(), std::move(headers)));
}

// The bytes that a client keeps if it reads whole events: up to the last event with an id.
struct Saved {
  std::string bytes;
  std::string last_id;  // Empty: none.
};
Saved saved_of(const std::string& received) {
  Saved saved;
  size_t begin = 0;
  std::string id;
  for (size_t end = received.find("\n\n"); end != received.npos;
       end = received.find("\n\n", begin)) {
    const std::string event = received.substr(begin, end + 2 - begin);
    begin = end + 2;
    if (!event.starts_with("id: ")) continue;
    saved = {.bytes = received.substr(0, begin), .last_id = event.substr(4, event.find('\n') - 4)};
  }
  return saved;
}

// Reads `bytes` bytes, or to the end, and hangs up.
std::string read_and_cut(FakeExchange& exchange, size_t bytes) {
  std::string received;
  while (received.size() < bytes && exchange.read_more(&received)) {
  }
  exchange.go();
  received.resize(std::min(received.size(), bytes));
  return received;
}

struct Begun {
  std::shared_ptr<FakeExchange> exchange;
  std::string id;
};
Begun begin_random(ApiServer& server, std::mt19937_64& random) {
  const int kind = static_cast<int>(random() % 3);
  const OrderedJson tokens = 1 + random() % 10;
  OrderedJson body = kind == 0 ? with(kStory, {{"max_tokens", tokens}, {"echo", random() % 2 == 0}})
                     : kind == 1 ? with(kTalk, {{"max_tokens", tokens}})
                                 : with(kInput, {{"max_output_tokens", tokens}});
  body["seed"] = random() % 1000;
  if (kind < 2) body["n"] = 1 + random() % 2;
  if (kind < 2) body["stream_options"] = {{"include_usage", random() % 2 == 0}};
  if (kind == 0 && random() % 2 == 0) body["logprobs"] = 2;
  if (kind == 1 && random() % 2 == 0) body["logprobs"] = true;
  const auto exchange = post(server,
                             kind == 0   ? "/v1/completions"
                             : kind == 1 ? "/v1/chat/completions"
                                         : "/v1/responses",
                             resumable(body));
  const http::Response head = exchange->wait_head();
  EXPECT_EQ(head.status, 200) << head.body;
  return {.exchange = exchange, .id = header(head, "X-Request-Id")};
}

TEST(ResumptionTest, AThousandStreamsCutAtRandomBytesJoinToTheUncutOnes) {
  std::mt19937_64 random(1);
  SCOPED_TRACE("seed 1");
  ApiServer server;
  int live = 0;
  for (int i = 0; i < 1000; ++i) {
    const Begun begun = begin_random(server, random);
    std::string joined;
    std::string received;
    if (i % 2 == 0) {
      received = read_and_cut(*begun.exchange, random() % 3000);  // Some are cut while they run.
      const Saved saved = saved_of(received);
      const auto rest = call(server, "GET", begun.id, "", saved.last_id);
      live += rest->wait_head().status == 200 ? 1 : 0;
      joined = saved.bytes + rest->wait().body;
      ASSERT_TRUE(joined.starts_with(received)) << i;
    }
    // The uncut stream: the first answer, or one read from the beginning.
    const std::string uncut =
        i % 2 == 0 ? call(server, "GET", begun.id)->wait().body : begun.exchange->wait().body;
    if (i % 2 != 0) {
      ASSERT_EQ(call(server, "GET", begun.id, "from=0")->wait().body, uncut) << i;
      const Saved saved = saved_of(uncut.substr(0, random() % (uncut.size() + 1)));
      joined = saved.bytes + call(server, "GET", begun.id, "", saved.last_id)->wait().body;
    }
    ASSERT_EQ(joined, uncut) << i;
  }
  EXPECT_EQ(live, 500);
}

TEST(ResumptionTest, AClientThatIsKilledAtEveryEventLosesNothing) {
  ApiServer server;
  const OrderedJson usage = {{"stream_options", {{"include_usage", true}}}};
  const std::string uncut =
      post(server, "/v1/chat/completions", resumable(kTalk, usage), "uncut")->wait().body;
  const size_t events = openai::events_of(uncut).size();
  ASSERT_EQ(events, 24u) << "the role, 20 tokens, the reason, the usage and [DONE]";
  for (size_t killed = 0; killed <= events; ++killed) {
    std::string joined;
    size_t bytes = 0;
    for (size_t i = 0; i < killed; ++i) bytes = uncut.find("\n\n", bytes) + 2;
    const Saved saved = saved_of(uncut.substr(0, bytes));
    joined = saved.bytes + call(server, "GET", "uncut", "", saved.last_id)->wait().body;
    EXPECT_EQ(joined, uncut) << killed;
    const int next = saved.last_id.empty() ? 0 : std::stoi(saved.last_id) + 1;
    const std::string from = "from=" + std::to_string(std::min(next, 21));
    EXPECT_EQ(saved.bytes.size() + call(server, "GET", "uncut", from)->wait().body.size(),
              uncut.size());
  }
}

TEST(ResumptionTest, ALostClientDoesNotCancelAndAReaderWaitsForAFutureOffset) {
  ApiServer server;
  StepGate gate(server.cluster());
  const auto first = post(server, "/v1/completions", resumable(kStory), "story");
  EXPECT_EQ(first->wait_head().status, 200);
  first->go();
  const auto rest = call(server, "GET", "story", "from=18");
  EXPECT_EQ(rest->wait_head().status, 200);
  gate.open();
  const std::vector<SseEvent> events = openai::events_of(rest->wait().body);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].id, "18");
  EXPECT_EQ(events[1].id, "") << "its reason follows as part of the same event";
  EXPECT_EQ(events[2].id, "19");
  EXPECT_EQ(OrderedJson::parse(events[0].data)["id"], "story") << "both use one name";
  EXPECT_EQ(server.engine().stats().completion_tokens, 20);
}

TEST(ResumptionTest, AStreamHasAUniqueNameFromTheClientOrARandomOne) {
  ApiServer server;
  const auto first = post(server, "/v1/completions", resumable(kStory), "mine");
  EXPECT_EQ(header(first->wait(), "X-Request-Id"), "mine");
  expect_error(post(server, "/v1/completions", resumable(kStory), "mine")->wait(), 409, nullptr,
               "request_id_in_use", "mine");
  expect_error(post(server, "/v1/completions", resumable(kStory), "a/b")->wait(), 400,
               "X-Request-Id", nullptr, "must be 1 to 128");
  std::set<std::string> drawn;
  for (int i = 0; i < 20; ++i) {
    drawn.insert(
        header(post(server, "/v1/completions", resumable(kStory))->wait(), "X-Request-Id"));
  }
  EXPECT_EQ(drawn.size(), 20u);
  EXPECT_GE(drawn.begin()->size(), 24u);
  // If the body lacks "resumable", the header names no stream, so it may equal a stream's name.
  EXPECT_EQ(post(server, "/v1/completions", kStory, "mine")->wait().status, 200);
}

TEST(ResumptionTest, AStreamThatCannotBeResumedSaysWhy) {
  ApiServer server;
  const auto refused = [&](const OrderedJson& body) {
    return post(server, "/v1/completions", body)->wait();
  };
  expect_error(refused(with(kStory, {{"resumable", true}})), 400, "resumable", nullptr, "stream");
  expect_error(refused(resumable(kStory, {{"prompt", {"a", "b"}}})), 400, "resumable", nullptr,
               "must have one prompt, found 2");
  expect_error(refused(resumable(kStory, {{"resumable", 1}})), 400, "resumable", nullptr, "");
  EXPECT_EQ(refused(with(kStory, {{"resumable", false}})).status, 200);
  post(server, "/v1/completions", resumable(kStory), "story")->wait();
  expect_error(call(server, "GET", "nobody")->wait(), 404, nullptr, "stream_not_found", "nobody");
  expect_error(call(server, "DELETE", "nobody")->wait(), 404, nullptr, "stream_not_found", "");
  expect_error(call(server, "GET", "story", "from=22")->wait(), 400, "from", nullptr,
               "must be at most 21");
  EXPECT_EQ(call(server, "GET", "story", "from=20")->wait().body, "data: [DONE]\n\n");
  EXPECT_EQ(call(server, "GET", "story", "from=21")->wait().body, "data: [DONE]\n\n");
  for (const char* query :
       {"from=", "from=-1", "from=1x", "from=%31", "from=9999999999999999999"}) {
    expect_error(call(server, "GET", "story", query)->wait(), 400, "from", nullptr,
                 "must be an offset");
  }
  expect_error(call(server, "GET", "story", "from=1", "x")->wait(), 400, "Last-Event-ID", nullptr,
               "must be an offset");
}

TEST(ResumptionTest, TheHeaderOverridesTheQuery) {
  const auto offset = [](const std::string& query, const http::Headers& headers) {
    const FakeExchange exchange("GET", with_query("/", query), "", headers);
    return resume_offset(exchange.request()).value();
  };
  EXPECT_EQ(offset("", {}), 0u);
  EXPECT_EQ(offset("a=b&from=7&from=8", {}), 7u);
  EXPECT_EQ(offset("from=7", {{"last-event-id", "11"}}), 12u);
  EXPECT_EQ(offset("from=7", {{"last-event-id", ""}}), 7u);
  EXPECT_EQ(offset("xfrom=7&fromage=3", {}), 0u);
}

TEST(ResumptionTest, AnExpiredStreamIs410OrAnErrorWithinTheAnswer) {
  ApiServer server({}, {}, {}, {.after_end_ms = 0});
  StepGate gate(server.cluster());
  const auto first = post(server, "/v1/completions", resumable(kStory), "story");
  EXPECT_EQ(first->wait_head().status, 200);
  gate.open();
  EXPECT_TRUE(becomes_true([&] { return server.resumable().counts().streams == 0; }));
  expect_error(call(server, "GET", "story")->wait(), 410, nullptr, "stream_gone", "no longer kept");
  expect_error(call(server, "DELETE", "story")->wait(), 410, nullptr, "stream_gone", "");
  // By then the first reader may have read all, or some, or nothing.
  const std::vector<SseEvent> events = openai::events_of(first->wait().body);
  if (events.back().data != "[DONE]") {
    EXPECT_NE(events.back().data.find("no longer kept"), std::string::npos);
  }
  EXPECT_NE(post(server, "/v1/completions", resumable(kStory), "story")->wait_head().status, 409);
}

TEST(ResumptionTest, DeletingAStreamCancelsItsRequest) {
  ApiServer server;
  const auto first =
      post(server, "/v1/completions", resumable(kStory, {{"max_tokens", 900}}), "story");
  EXPECT_EQ(first->wait_head().status, 200);
  EXPECT_EQ(call(server, "DELETE", "story")->wait().status, 204);
  const std::vector<SseEvent> events = openai::events_of(first->wait().body);
  EXPECT_LT(events.size(), 900u);
  EXPECT_EQ(OrderedJson::parse(events[events.size() - 2].data)["choices"][0]["finish_reason"],
            "cancelled");
  EXPECT_EQ(call(server, "DELETE", "story")->wait().status, 204) << "it has ended";
}

TEST(ResumptionTest, AServerWithoutMemoryForStreamsSaysSoBeforeAndWithinTheAnswer) {
  ApiServer server({}, {}, {}, {.max_bytes = 6 * kResumableStreamBytes});
  const std::string uncut =
      post(server, "/v1/completions", resumable(kStory, {{"max_tokens", 900}}), "story")
          ->wait()
          .body;
  const std::vector<SseEvent> events = openai::events_of(uncut);
  const OrderedJson error = OrderedJson::parse(events.back().data)["error"];
  EXPECT_EQ(error["code"], "rate_limit_exceeded") << error;
  EXPECT_EQ(call(server, "GET", "story")->wait().body, uncut);
  const OrderedJson large =
      resumable(kStory, {{"echo", true}, {"prompt", std::string(30'000, 'a')}});
  expect_error(post(server, "/v1/completions", large)->wait(), 429, nullptr, "rate_limit_exceeded",
               "--resume-bytes");
}

TEST(ResumptionTest, AFaultIsTheSameErrorForEveryReader) {
  ApiServer server;
  std::atomic<int> steps = 0;
  server.cluster().set_hook([&](const cluster::Step&) -> absl::Status {
    return ++steps > 5 ? absl::UnavailableError("rank 1 was lost") : absl::OkStatus();
  });
  const std::string uncut =
      post(server, "/v1/completions", resumable(kStory), "story")->wait().body;
  EXPECT_NE(uncut.find("rank 1 was lost"), std::string::npos);
  const Saved saved = saved_of(uncut.substr(0, uncut.size() / 2));
  EXPECT_EQ(saved.bytes + call(server, "GET", "story", "", saved.last_id)->wait().body, uncut);
}

TEST(ResumptionTest, RandomStreamsAreJoinedAtRandomCuts) {
  std::mt19937_64 random(9);
  SCOPED_TRACE("seed 9");
  for (int i = 0; i < 2'000; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    check_resume_input(bytes);
  }
}

}  // namespace
}  // namespace lockstep::openai
