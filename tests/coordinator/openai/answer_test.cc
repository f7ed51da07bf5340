// SPDX-License-Identifier: Apache-2.0
// Events that no real model is needed for: calls and thoughts in answers, and that a chunk depends
// on what came before it alone.
#include <gtest/gtest.h>

#include "coordinator/openai/chunk_writer.h"
#include "coordinator/openai/whole_answer.h"

namespace lockstep::openai {
namespace {

constexpr char kText[] =
    "<think>\nParis?\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"get_weather\", "
    "\"arguments\": {\"city\": \"Paris\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\"}\n"
    "</tool_call>";

AnswerFacts facts() {
  return {.endpoint = kChat,
          .id = "chatcmpl-1",
          .created = 5,
          .model = "m",
          .include_usage = true,
          .output = {.thoughts = find_format("think"), .tools = find_format("hermes")}};
}

// The text in pieces of so many bytes, the last one with the end.
std::vector<StreamEvent> events_of(const std::string& text, size_t size) {
  std::vector<StreamEvent> events;
  for (size_t at = 0; at < text.size(); at += size)
    events.push_back({.text = text.substr(at, size)});
  events.back().finish_reason = FinishReason::kStop;
  events.back().prompt_tokens = 3;
  events.back().completion_tokens = 9;
  return events;
}

TEST(WholeAnswerTest, ThoughtsAndCallsAreFieldsOfTheMessage) {
  WholeAnswer answer(facts(), 1, 1);
  for (const StreamEvent& event : events_of(kText, 7)) answer.add(event, 0);
  const OrderedJson choice = OrderedJson::parse(answer.text())["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  const OrderedJson& message = choice["message"];
  EXPECT_EQ(message["content"], "I look.");
  EXPECT_EQ(message["reasoning_content"], "Paris?");
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  const OrderedJson& call = message["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["name"], "get_weather");
  EXPECT_EQ(call["function"]["arguments"], "{\"city\": \"Paris\"}");
  EXPECT_EQ(message["tool_calls"][1]["function"]["arguments"], "{}");
  EXPECT_EQ(call["id"].get<std::string>().size(), 9u);
  EXPECT_NE(call["id"], message["tool_calls"][1]["id"]);
}

TEST(WholeAnswerTest, AnAnswerOfCallsAloneHasNoContent) {
  WholeAnswer answer(facts(), 1, 1);
  for (const auto& event : events_of("<tool_call>{\"name\": \"now\"}</tool_call>", 100)) {
    answer.add(event, 0);
  }
  EXPECT_TRUE(OrderedJson::parse(answer.text())["choices"][0]["message"]["content"].is_null());
}

TEST(ChunkWriterTest, DeltasAddUpToTheWholeMessage) {
  for (const size_t size : {1, 5, 40, 1000}) {
    ChunkWriter writer(std::make_shared<const AnswerFacts>(facts()));
    WholeAnswer whole(facts(), 1, 1);
    OrderedJson message = {
        {"role", ""}, {"content", ""}, {"refusal", nullptr}, {"reasoning_content", ""}};
    OrderedJson reason;
    for (const StreamEvent& event : events_of(kText, size)) {
      whole.add(event, 0);
      const std::optional<std::string> chunk = writer.chunk(event, 0);
      if (!chunk.has_value()) continue;
      const OrderedJson choice = OrderedJson::parse(*chunk)["choices"][0];
      EXPECT_TRUE(reason.is_null());
      reason = choice["finish_reason"];
      for (const auto& [key, value] : choice["delta"].items()) {
        if (key != "tool_calls") {
          message[key] = message[key].get<std::string>() + value.get<std::string>();
          continue;
        }
        for (OrderedJson call : value) {
          const size_t index = call["index"];
          call.erase("index");
          if (index == message["tool_calls"].size()) {
            EXPECT_TRUE(call.contains("id"));
            message["tool_calls"].push_back(call);
            continue;
          }
          EXPECT_FALSE(call.contains("id"));
          std::string arguments = message["tool_calls"][index]["function"]["arguments"];
          arguments += call["function"]["arguments"];
          message["tool_calls"][index]["function"]["arguments"] = arguments;
        }
      }
    }
    EXPECT_EQ(reason, "tool_calls");
    EXPECT_EQ(message, OrderedJson::parse(whole.text())["choices"][0]["message"]) << size;
    const OrderedJson usage = OrderedJson::parse(writer.usage_chunk().value());
    EXPECT_EQ(usage["usage"]["total_tokens"], 12);
  }
}

TEST(ChunkWriterTest, TheSameEventsAreTheSameBytes) {
  ChunkWriter first(std::make_shared<const AnswerFacts>(facts()));
  ChunkWriter second(std::make_shared<const AnswerFacts>(facts()));
  for (const StreamEvent& event : events_of(kText, 3)) {
    EXPECT_EQ(first.chunk(event, 0), second.chunk(event, 0));
  }
  EXPECT_EQ(first.usage_chunk(), second.usage_chunk());
}

TEST(ChunkWriterTest, AnEventThatShowsNothingHasNoChunk) {
  ChunkWriter writer(std::make_shared<const AnswerFacts>(facts()));
  EXPECT_TRUE(writer.chunk({.text = "<think>"}, 0).has_value());  // The role.
  EXPECT_FALSE(writer.chunk({.text = "\n"}, 0).has_value());
  EXPECT_TRUE(writer.chunk({.finish_reason = FinishReason::kLength}, 0).has_value());
}

TEST(CallIdTest, IsTheModelsWhereItWroteOne) {
  EXPECT_EQ(call_id("chatcmpl-1", 0, {.id = "functions.f:0"}), "functions.f:0");
}

TEST(CallIdTest, IsNineLettersAndDigitsThatDependOnAnswerChoiceAndCall) {
  const std::string id = call_id("chatcmpl-1", 0, {.index = 0});
  EXPECT_EQ(id, call_id("chatcmpl-1", 0, {.index = 0}));
  EXPECT_EQ(id.size(), 9u);
  for (const char c : id) EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c))) << id;
  EXPECT_NE(id, call_id("chatcmpl-1", 0, {.index = 1}));
  EXPECT_NE(id, call_id("chatcmpl-1", 1, {.index = 0}));
  EXPECT_NE(id, call_id("chatcmpl-2", 0, {.index = 0}));
}

}  // namespace
}  // namespace lockstep::openai
