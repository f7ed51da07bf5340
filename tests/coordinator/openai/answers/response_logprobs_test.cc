// SPDX-License-Identifier: Apache-2.0
// The log-probabilities of /v1/responses, in its events and in the whole response.
#include <gtest/gtest.h>

#include "coordinator/openai/answer_bounds.h"
#include "coordinator/openai/answers/response_writer.h"
#include "coordinator/openai/error.h"
#include "tests/coordinator/openai/api_server.h"

namespace lockstep::openai {
namespace {

// Each event that has a whole text has the log-probabilities of that text, too.
TEST(ResponseLogprobsTest, TheLastEventsOfAStreamedResponseHaveItsTokens) {
  ApiServer server;
  const OrderedJson body = {{"input", "Once"},
                            {"max_output_tokens", 8},
                            {"include", {"message.output_text.logprobs"}},
                            {"top_logprobs", 2},
                            {"stream", true}};
  OrderedJson streamed = OrderedJson::array();
  int wholes = 0;
  const auto expect_all = [&](const OrderedJson& part) {
    EXPECT_EQ(part["logprobs"], streamed);
    ++wholes;
  };
  for (const SseEvent& event : events_of(server.post("/v1/responses", body.dump()).body)) {
    const OrderedJson json = OrderedJson::parse(event.data);
    const std::string type = json["type"];
    if (type == "response.output_text.delta") {
      for (const OrderedJson& entry : json["logprobs"]) streamed.push_back(entry);
    }
    if (type == "response.output_text.done") expect_all(json);
    if (type == "response.content_part.done") expect_all(json["part"]);
    if (type == "response.output_item.done") expect_all(json["item"]["content"][0]);
    if (type == "response.incomplete") expect_all(json["response"]["output"][0]["content"][0]);
  }
  EXPECT_EQ(wholes, 4);
  EXPECT_GT(streamed.size(), 0u);
}

TEST(ResponseLogprobsTest, TheLogprobsOfAStreamedResponseAreBounded) {
  const ApiServer server;
  const int64_t context = server.model().max_context();
  EngineRequest request{.prompt_ids = {1}, .max_tokens = kAllTokens, .logprobs = 20};
  ASSERT_TRUE(bound_response(context, &request).ok());
  EXPECT_EQ(request.max_tokens, kAllTokens);  // The model's context is a small enough bound.
  ASSERT_TRUE(bound_response(1 << 20, &request).ok());
  EXPECT_EQ(request.max_tokens, 1560);
  EXPECT_TRUE(bound_response(1 << 20, &request).ok());
  request.max_tokens = 1561;
  const absl::Status status = bound_response(1 << 20, &request);
  EXPECT_EQ(error_body(status)["error"]["param"], "max_output_tokens");
  request.logprobs = -1;
  EXPECT_TRUE(bound_response(1 << 20, &request).ok());
}

// The tokens of hidden thoughts wait for a visible text: they must not be read again for each
// token.
TEST(ResponseLogprobsTest, ManyHiddenTokensAreReadOnce) {
  const ApiServer server;
  const Tokenizer* tokenizer = server.model().tokenizer();
  ResponseWriter writer(std::make_shared<const AnswerFacts>(
      AnswerFacts{.endpoint = kResponses,
                  .id = "resp_1",
                  .include_reasoning = false,
                  .logprobs = true,
                  .output = {.thoughts = find_format("think")},
                  .repeated = *repeated_fields(OrderedJson::object()),
                  .tokenizer = tokenizer}));
  const auto event = [&](const std::string& text) {
    return StreamEvent{.text = text, .logprobs = {{{.id = *tokenizer->token_id("a")}}}};
  };
  std::vector<StreamEvent> events = {event("<think>")};
  for (int i = 0; i < 50'000; ++i) events.push_back(event("a"));
  events.push_back(event("</think>"));
  events.push_back(event("a"));
  events.push_back({.finish_reason = FinishReason::kStop});
  const OrderedJson response = OrderedJson::parse(writer.response(events));
  const OrderedJson& part = response["output"][0]["content"][0];
  EXPECT_EQ(part["text"], "a");
  EXPECT_EQ(part["logprobs"].size(), 1u);
}

}  // namespace
}  // namespace lockstep::openai
