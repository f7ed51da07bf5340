// SPDX-License-Identifier: Apache-2.0
// Streams as benchmark clients read them. vLLM's client splits at empty lines, SGLang's and
// llmperf's at every line end. They read each piece that is not blank as an event: `data: ` and
// JSON.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "coordinator/openai/answers/event_source.h"
#include "coordinator/streams/event_log.h"
#include "tests/coordinator/openai/api_server.h"
#include "tests/coordinator/openai/bodies.h"

namespace lockstep::openai {
namespace {

// The events that such a client reads: each piece that is not empty, after its `data: `.
std::vector<std::string> data_of(const std::string& stream, const char* separator) {
  std::vector<std::string> data;
  for (const absl::string_view piece : absl::StrSplit(stream, separator)) {
    const absl::string_view stripped = absl::StripAsciiWhitespace(piece);
    if (stripped.empty()) continue;
    EXPECT_TRUE(absl::StartsWith(stripped, "data: ")) << stripped;
    data.emplace_back(stripped.substr(std::min<size_t>(6, stripped.size())));
    EXPECT_TRUE(data.back() == "[DONE]" || OrderedJson::accept(data.back())) << data.back();
  }
  return data;
}

void expect_data_alone(const std::string& stream) {
  const std::vector<std::string> data = data_of(stream, "\n\n");
  EXPECT_FALSE(data.empty());
  EXPECT_EQ(data, data_of(stream, "\n"));
}

std::string stream_of(ApiServer& server, const std::string& path, const OrderedJson& body) {
  const http::Response response = server.post(path, with(body, {{"stream", true}}).dump());
  EXPECT_EQ(response.status, 200) << response.body;
  return response.body;
}

TEST(StreamLinesTest, EveryPieceOfAStreamIsData) {
  ApiServer server;
  const OrderedJson usage = {{"stream_options", {{"include_usage", true}}}};
  for (const OrderedJson& more : {OrderedJson::object(),
                                  usage,
                                  {{"n", 3}},
                                  {{"prompt", {"a", "b"}}},
                                  {{"echo", true}, {"logprobs", 2}},
                                  {{"resumable", false}}}) {
    SCOPED_TRACE(more.dump());
    expect_data_alone(stream_of(server, "/v1/completions", with(kStory, more)));
  }
  for (const OrderedJson& more : {usage, {{"logprobs", true}}, {{"n", 2}}}) {
    SCOPED_TRACE(more.dump());
    expect_data_alone(stream_of(server, "/v1/chat/completions", with(kTalk, more)));
  }
}

TEST(StreamLinesTest, AnErrorWithinAStreamIsData) {
  ApiServer server;
  std::atomic<int> steps = 0;
  server.cluster().set_hook([&](const cluster::Step&) -> absl::Status {
    return ++steps > 5 ? absl::UnavailableError("rank 1 was lost") : absl::OkStatus();
  });
  const std::string stream = stream_of(server, "/v1/chat/completions", kTalk);
  EXPECT_NE(stream.find("was lost"), std::string::npos) << stream;
  expect_data_alone(stream);
}

// A benchmark that waits in the queue for 15 s also reads the bytes that fill the silence.
TEST(StreamLinesTest, BytesThatFillAPauseAreNoEvent) {
  const auto facts = std::make_shared<const AnswerFacts>(AnswerFacts{.id = "cmpl-1"});
  const auto log = std::make_shared<EventLog>();
  std::vector<std::unique_ptr<StreamReader>> readers;
  readers.push_back(log->open(0).value());
  EventSource source(facts, std::move(readers));
  std::string stream(source.keep_alive());
  for (const FinishReason reason :
       {FinishReason::kNone, FinishReason::kNone, FinishReason::kStop}) {
    log->append({.text = "Once", .finish_reason = reason});
    source.read(&stream);
    stream += source.keep_alive();
    stream += source.keep_alive();
  }
  log->close(absl::OkStatus());
  EXPECT_EQ(source.read(&stream), http::BodySource::State::kEnd);
  expect_data_alone(stream);
  EXPECT_EQ(data_of(stream, "\n\n").size(), 6u)
      << "a role, three texts, a reason and [DONE]: " << stream;
}

TEST(StreamLinesTest, TheEventsOfAResponseHaveTypesAndIdsIfItIsResumable) {
  ApiServer server;
  const OrderedJson body = {{"input", "Once upon a time"}, {"max_output_tokens", 20}, {"seed", 1}};
  const auto kinds_of = [](const std::string& stream) {
    std::set<std::string> kinds;
    for (const absl::string_view line : absl::StrSplit(stream, '\n', absl::SkipEmpty())) {
      kinds.emplace(line.substr(0, line.find(' ')));
    }
    return kinds;
  };
  EXPECT_EQ(kinds_of(stream_of(server, "/v1/responses", body)),
            (std::set<std::string>{"data:", "event:"}));
  EXPECT_EQ(kinds_of(stream_of(server, "/v1/responses", with(body, {{"resumable", true}}))),
            (std::set<std::string>{"data:", "event:", "id:"}));
}

}  // namespace
}  // namespace lockstep::openai
