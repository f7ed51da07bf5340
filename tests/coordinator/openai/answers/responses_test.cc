// SPDX-License-Identifier: Apache-2.0
// /v1/responses, which stores nothing: texts and function tools.
#include <gtest/gtest.h>

#include "coordinator/openai/answers/response_writer.h"
#include "tests/coordinator/openai/api_server.h"
#include "tests/coordinator/openai/bodies.h"
#include "tests/support/patience.h"

namespace lockstep::openai {
namespace {

const OrderedJson kAsk = {
    {"input", "Once upon a time"}, {"max_output_tokens", 20}, {"seed", 1}, {"ignore_eos", true}};

TEST(ResponsesTest, AResponseHasTheTextOfAChat) {
  ApiServer server;
  const OrderedJson chat = server.post_json("/v1/chat/completions", kTalk);
  const OrderedJson answer = server.post_json("/v1/responses", kAsk);
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("resp_"));
  EXPECT_EQ(answer["object"], "response");
  EXPECT_EQ(answer["status"], "incomplete");
  EXPECT_EQ(answer["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(answer["max_output_tokens"], 20);
  ASSERT_EQ(answer["output"].size(), 1u);
  EXPECT_EQ(answer["output"][0]["type"], "message");
  EXPECT_EQ(answer["output"][0]["content"][0]["text"], chat["choices"][0]["message"]["content"]);
  EXPECT_EQ(answer["usage"]["output_tokens"], 20);
  EXPECT_EQ(answer["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
}

TEST(ResponsesTest, EventsAddUpToTheWholeResponse) {
  ApiServer server;
  const OrderedJson whole = server.post_json("/v1/responses", kAsk);
  const http::Response streamed =
      server.post("/v1/responses", with(kAsk, {{"stream", true}}).dump());
  std::string text;
  std::vector<std::string> types;
  for (const SseEvent& event : events_of(streamed.body)) {
    const OrderedJson json = OrderedJson::parse(event.data);
    EXPECT_EQ(json["sequence_number"], types.size());
    types.push_back(json["type"]);
    if (types.back() == "response.output_text.delta") text += json["delta"].get<std::string>();
    if (types.back() == "response.incomplete") {
      OrderedJson last = json["response"];
      for (const char* own : {"id", "created_at"}) last[own] = whole[own];
      last["output"][0]["id"] = whole["output"][0]["id"];
      EXPECT_EQ(last, whole);
    }
  }
  EXPECT_EQ(text, whole["output"][0]["content"][0]["text"]);
  EXPECT_EQ(types[0], "response.created");
  EXPECT_EQ(types[1], "response.in_progress");
  EXPECT_EQ(types[2], "response.output_item.added");
  EXPECT_EQ(types[3], "response.content_part.added");
  EXPECT_EQ(types.back(), "response.incomplete");
}

TEST(ResponsesTest, ThoughtsAndCallsAreItems) {
  ResponseWriter writer(std::make_shared<const AnswerFacts>(
      AnswerFacts{.endpoint = kResponses,
                  .id = "resp_1",
                  .output = {.thoughts = find_format("think"), .tools = find_format("hermes")},
                  .repeated = *repeated_fields(OrderedJson::object())}));
  const std::string text =
      "<think>hm</think>Wait.<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";
  std::string bytes;
  for (const char c : text) writer.write({.text = std::string(1, c)}, 0, std::nullopt, &bytes);
  writer.write({.finish_reason = FinishReason::kStop, .prompt_tokens = 1, .completion_tokens = 2},
               0, 77, &bytes);
  writer.end(78, &bytes);
  const std::vector<SseEvent> events = events_of(bytes);
  EXPECT_EQ(events.back().id, "78");
  const OrderedJson last = OrderedJson::parse(events.back().data);
  EXPECT_EQ(last["type"], "response.completed");
  const OrderedJson& output = last["response"]["output"];
  ASSERT_EQ(output.size(), 3u);
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_EQ(output[0]["content"][0]["text"], "hm");
  EXPECT_EQ(output[1]["content"][0]["text"], "Wait.");
  EXPECT_EQ(output[2]["type"], "function_call");
  EXPECT_EQ(output[2]["name"], "f");
  EXPECT_EQ(output[2]["arguments"], "{\"a\": 1}");
  std::string arguments;
  size_t done = 0;
  for (const SseEvent& event : events) {
    const OrderedJson json = OrderedJson::parse(event.data);
    if (json["type"] == "response.function_call_arguments.delta") arguments += json["delta"];
    done += json["type"] == "response.output_item.done";
  }
  EXPECT_EQ(arguments, "{\"a\": 1}");
  EXPECT_EQ(done, 3u);
}

TEST(ResponsesTest, ACancelledResponseIsNotReportedComplete) {
  ResponseWriter writer(std::make_shared<const AnswerFacts>(
      AnswerFacts{.endpoint = kResponses,
                  .id = "resp_1",
                  .repeated = *repeated_fields({{"metadata", {{"a", "\"}{"}}}})}));
  std::string bytes;
  writer.write({.text = "Once"}, 0, std::nullopt, &bytes);
  writer.write({.finish_reason = FinishReason::kCancelled}, 0, std::nullopt, &bytes);
  writer.end(std::nullopt, &bytes);
  const std::vector<SseEvent> events = events_of(bytes);
  const OrderedJson last = OrderedJson::parse(events.back().data);
  EXPECT_EQ(last["type"], "response.incomplete");
  EXPECT_EQ(last["response"]["status"], "cancelled");
  EXPECT_EQ(last["response"]["output"][0]["status"], "incomplete");
  EXPECT_EQ(last["response"]["metadata"]["a"], "\"}{");
  const OrderedJson done = OrderedJson::parse(events[events.size() - 2].data);
  EXPECT_EQ(done["type"], "response.output_item.done");
  EXPECT_EQ(done["item"]["status"], "incomplete");
}

TEST(ResponsesTest, TheFieldsThatAResponseRepeatsAreBounded) {
  ApiServer server;
  const OrderedJson body = {{"input", "a"},
                            {"user", std::string(30'000, 'u')},
                            {"metadata", {{"key", std::string(40'000, 'm')}}}};
  expect_error(server.post("/v1/responses", body.dump()), 400, "user", nullptr, "65536 bytes");
  EXPECT_TRUE(repeated_fields({{"instructions", std::string(100'000, 'i')}}).ok());
}

TEST(ResponsesTest, TheFieldsThatRunningResponsesKeepAreBoundedTogether) {
  ApiServer server({}, {}, {.max_held_bytes = 100'000});
  const OrderedJson body = {{"input", "a"},
                            {"instructions", std::string(30'000, 'i')},
                            {"truncate_prompt_tokens", 1},
                            {"max_output_tokens", 1}};
  {
    StepGate gate(server.cluster());
    const auto first = server.send("POST", "/v1/responses", body.dump());
    EXPECT_TRUE(becomes_true([&] { return server.engine().stats().running > 0; }));
    expect_error(server.post("/v1/responses", body.dump()), 429, nullptr, "rate_limit_exceeded",
                 "must take at most 50000 bytes");
    const auto other = server.send("POST", "/v1/completions", kStory.dump());  // It keeps nothing.
    gate.open();
    EXPECT_EQ(other->wait().status, 200);
    EXPECT_EQ(first->wait().status, 200);
  }
  EXPECT_TRUE(
      becomes_true([&] { return server.post("/v1/responses", body.dump()).status == 200; }));
  // Streams that are kept after their end count elsewhere.
  for (int i = 0; i < 3; ++i) {
    const OrderedJson kept = {{"stream", true}, {"resumable", true}};
    EXPECT_EQ(server.post("/v1/responses", with(body, kept).dump()).status, 200);
  }
  EXPECT_EQ(server.post("/v1/responses", body.dump()).status, 200);
}

TEST(ResponsesTest, ItemsOfInputBecomeMessages) {
  ApiServer server;
  const auto request = parse_request(kResponses,
                                     R"({"instructions": "Be brief.", "input": [
          {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
          {"type": "reasoning", "summary": []},
          {"type": "function_call", "call_id": "x", "name": "f", "arguments": "{}"},
          {"type": "function_call", "call_id": "y", "name": "g", "arguments": "{}"},
          {"type": "function_call_output", "call_id": "x", "output": "1"}],
        "tools": [{"type": "function", "name": "f", "parameters": {}}]})",
                                     server.model());
  ASSERT_TRUE(request.ok()) << request.status();
  const v1::ChatMessages& chat = request->shared.chat();
  ASSERT_EQ(chat.messages_size(), 4);
  EXPECT_EQ(chat.messages(0).role(), "system");
  EXPECT_EQ(chat.messages(1).content(), "a");
  EXPECT_EQ(chat.messages(2).tool_calls_size(), 2);
  EXPECT_EQ(chat.messages(3).tool_call_id(), "x");
  EXPECT_EQ(chat.tools(0), R"({"type":"function","function":{"name":"f","parameters":{}}})");
}

TEST(ResponsesTest, UnsupportedFieldsAreRefused) {
  ApiServer server;
  const auto refused = [&](const OrderedJson& more, const OrderedJson& param,
                           const std::string& text) {
    expect_error(server.post("/v1/responses", with(kAsk, more).dump()), 400, param, nullptr, text);
  };
  refused({{"previous_response_id", "resp_1"}}, "previous_response_id", "keeps no responses");
  refused({{"background", true}}, "background", "keeps no responses");
  refused({{"text", {{"format", {{"type", "json_schema"}}}}}}, "text.format", "grammar");
  refused({{"input", {{{"type", "computer_call"}}}}}, "input[0].type", "must be message");
  refused({{"tools", {{{"type", "function"}, {"name", "f"}}, {{"type", "web_search"}}}}},
          "tools[1].type", "found \"web_search\"");
  refused({{"tools", {{{"type", "function"}}}}}, "tools[0]", "\"name\"");
  refused({{"input", 5}}, "input", "must be a string");
  refused({{"max_output_tokens", -1}}, "max_output_tokens", "max_output_tokens: must be 0 to");
  expect_error(server.post("/v1/responses", "{}"), 400, "input", nullptr, "at least one message");
}

}  // namespace
}  // namespace lockstep::openai
