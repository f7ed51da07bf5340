// SPDX-License-Identifier: Apache-2.0
#include "tools/load/openai.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

AnswerEvent event_of(const char* data) {
  const absl::StatusOr<AnswerEvent> event = parse_answer_event(data);
  EXPECT_TRUE(event.ok()) << data << ": " << event.status();
  return event.ok() ? *event : AnswerEvent{};
}

TEST(OpenAiTest, BodiesHaveTheFieldsOfTheEndpoint) {
  const LoadRequest request{.prompt = "Hi \"there\"", .max_tokens = 5};
  const Json text = Json::parse(make_body(Endpoint::kCompletions, "m", request, Json::object()));
  EXPECT_EQ(text, Json::parse(R"({"model": "m", "prompt": "Hi \"there\"", "max_tokens": 5,
      "stream": true, "stream_options": {"include_usage": true}})"));
  const Json chat = Json::parse(make_body(Endpoint::kChat, "m", request, {{"max_tokens", 9}}));
  EXPECT_EQ(chat["messages"], Json::parse(R"([{"role": "user", "content": "Hi \"there\""}])"));
  EXPECT_EQ(chat["max_tokens"], 9);
  EXPECT_FALSE(chat.contains("prompt"));
}

TEST(OpenAiTest, APromptThatIsNotUtf8IsStillJson) {
  const std::string body =
      make_body(Endpoint::kCompletions, "m", {.prompt = "caf\xe9"}, Json::object());
  EXPECT_EQ(Json::parse(body)["prompt"], "caf\xef\xbf\xbd");
}

TEST(OpenAiTest, TextIsFoundInEveryFormat) {
  EXPECT_TRUE(event_of(R"({"choices": [{"text": "a"}]})").has_text);
  EXPECT_TRUE(event_of(R"({"choices": [{"delta": {"content": "a"}}]})").has_text);
  EXPECT_TRUE(event_of(R"({"choices": [{"delta": {"reasoning_content": "a"}}]})").has_text);
  EXPECT_TRUE(event_of(R"({"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]})").has_text);
  EXPECT_FALSE(event_of(R"({"choices": [{"text": ""}]})").has_text);
  EXPECT_FALSE(
      event_of(R"({"choices": [{"delta": {"role": "assistant", "content": ""}}]})").has_text);
}

TEST(OpenAiTest, EndsUsageAndErrorsAreFound) {
  EXPECT_TRUE(event_of("[DONE]").done);
  EXPECT_TRUE(event_of(R"({"choices": [{"text": "", "finish_reason": "stop"}]})").finished);
  EXPECT_FALSE(event_of(R"({"choices": [{"text": "a", "finish_reason": null}]})").finished);
  const AnswerEvent usage =
      event_of(R"({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 6}})");
  EXPECT_EQ(usage.prompt_tokens, 4);
  EXPECT_EQ(usage.output_tokens, 6);
  EXPECT_EQ(event_of(R"({"error": {"message": "lost rank 1", "code": 500}})").error, "lost rank 1");
  EXPECT_EQ(event_of(R"({"error": "broken"})").error, "broken");
  EXPECT_FALSE(event_of(R"({"error": null, "choices": []})").error.has_value());
}

TEST(OpenAiTest, MalformedEventsDoNoHarm) {
  for (const char* data :
       {R"({})", R"({"choices": 3, "usage": []})", R"({"choices": [null, 4, [], {"delta": 3}]})",
        R"({"choices": [{"text": 5, "finish_reason": 7}]})", R"({"usage": {"prompt_tokens": -1}})",
        R"({"usage": {"completion_tokens": 1e9, "prompt_tokens": 99999999999999999999}})"}) {
    const AnswerEvent event = event_of(data);
    EXPECT_FALSE(event.has_text || event.finished || event.done) << data;
    EXPECT_FALSE(event.prompt_tokens.has_value() || event.output_tokens.has_value()) << data;
  }
  EXPECT_FALSE(parse_answer_event("nonsense").ok());
  EXPECT_FALSE(parse_answer_event("[]").ok());
  EXPECT_FALSE(parse_answer_event(std::string(100000, '[')).ok());
}

TEST(OpenAiTest, ErrorMessagesAreOneLine) {
  EXPECT_EQ(error_message(R"({"error": {"message": "queue\nfull"}})"), "queue?full");
  EXPECT_EQ(error_message(R"({"message": "no key"})"), "no key");
  EXPECT_EQ(error_message("<html>"), "<html>");
  EXPECT_EQ(error_message(""), "");
  EXPECT_LE(error_message(std::string(100000, 'x')).size(), 120u);
}

TEST(OpenAiTest, TheFirstModelIsUsed) {
  EXPECT_EQ(*first_model(R"({"data": [{"id": "a"}, {"id": "b"}]})"), "a");
  for (const char* body : {"", "[]", "{}", R"({"data": []})", R"({"data": [{"id": 3}]})"}) {
    EXPECT_FALSE(first_model(body).ok()) << body;
  }
}

}  // namespace
}  // namespace lockstep
