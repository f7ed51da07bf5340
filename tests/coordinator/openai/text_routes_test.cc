// SPDX-License-Identifier: Apache-2.0
// The routes that return the tokens and prompts of requests without running the requests.
#include "coordinator/openai/text_routes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/coordinator/openai/api_server.h"
#include "tests/coordinator/openai/bodies.h"

namespace lockstep::openai {
namespace {

TEST(TextRoutesTest, TokenizeAndDetokenizeHaveVllmsShapes) {
  ApiServer server;
  const OrderedJson plain = server.post_json("/tokenize", {{"prompt", "Once upon a time"}});
  EXPECT_EQ(plain["count"], plain["tokens"].size());
  EXPECT_EQ(plain["max_model_len"], server.model().max_context());
  EXPECT_TRUE(plain["token_strs"].is_null());
  EXPECT_EQ(plain["tokens"][0], 0);  // The begin token.
  const OrderedJson bare = server.post_json(
      "/tokenize",
      {{"prompt", "Once"}, {"add_special_tokens", false}, {"return_token_strs", true}});
  EXPECT_EQ(bare["token_strs"], OrderedJson::array({"Once"}));
  EXPECT_EQ(server.post_json("/tokenize", {{"messages", kTalk["messages"]}})["tokens"],
            plain["tokens"]);
  EXPECT_EQ(server.post_json("/detokenize", {{"tokens", plain["tokens"]}})["prompt"],
            "<|story|>Once upon a time");
  expect_error(server.post("/tokenize", "{}"), 400, "prompt", nullptr, "must be a string");
  const OrderedJson both = {{"prompt", "Once"}, {"messages", kTalk["messages"]}};
  expect_error(server.post("/tokenize", both.dump()), 400, "messages", nullptr,
               "must not be sent with a prompt");
  for (const char* id : {"-1", "3072"}) {
    expect_error(server.post("/detokenize", fmt::format("{{\"tokens\": [1, {}]}}", id)), 400,
                 "tokens", nullptr, std::string("must be token ids of 0 to 3071, found ") + id);
  }
  expect_error(server.post("/detokenize", "{\"tokens\": [\"a\"]}"), 400, "tokens", nullptr,
               "must be an integer");
}

TEST(TextRoutesTest, TheNumberOfTokenTextsIsBounded) {
  ApiServer server;
  std::string text;
  for (int i = 0; i < 262'200; ++i) text += " a";
  const OrderedJson body = {{"prompt", text}, {"add_special_tokens", false}};
  EXPECT_GT(server.post_json("/tokenize", body)["count"], 262'144);
  expect_error(server.post("/tokenize", with(body, {{"return_token_strs", true}}).dump()), 400,
               "return_token_strs", nullptr, "must have at most 262144 tokens, found ");
}

TEST(TextRoutesTest, TheLengthOfADetokenizedTextIsBounded) {
  ApiServer server;
  const std::vector<int32_t> ids(500'000, 0);  // Id 0 is "<|story|>": 4.5 MB of text.
  expect_error(server.post("/detokenize", OrderedJson{{"tokens", ids}}.dump()), 400, "tokens",
               nullptr, "must have a text of at most 4194304 bytes, found more");
}

TEST(TextRoutesTest, ARequestShowsItsPromptWithoutAnAnswer) {
  ApiServer server;
  const OrderedJson shown = server.post_json("/v1/chat/completions/render", kTalk);
  EXPECT_EQ(shown["prompt"], "<|story|>Once upon a time");
  EXPECT_EQ(shown["chat_template"], "default");
  EXPECT_EQ(shown["tool_parser"], "none");
  const OrderedJson tokens =
      server.post_json("/tokenize", {{"messages", kTalk["messages"]}})["tokens"];
  EXPECT_EQ(shown["tokens"], tokens);
  EXPECT_EQ(shown["count"], tokens.size());
  const OrderedJson counted =
      server.post_json("/v1/responses/input_tokens", {{"input", "Once upon a time"}});
  EXPECT_EQ(counted["object"], "response.input_tokens");
  EXPECT_EQ(counted["input_tokens"], tokens.size());
  ApiServer parsing({}, {}, {.tool_parser = "hermes", .reasoning_parser = "think"});
  const OrderedJson parsed = parsing.post_json("/v1/chat/completions/render", kTalk);
  EXPECT_EQ(parsed["tool_parser"], "hermes");
  EXPECT_EQ(parsed["reasoning_parser"], "think");
}

TEST(TextRoutesTest, TheseRoutesHaveTheLimitsOfAChat) {
  ApiServer server;
  const OrderedJson call = {
      {"id", "a"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}};
  const OrderedJson calls(257, call);
  const OrderedJson with_calls = {
      {"messages",
       {{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"tool_calls", calls}}}}};
  const OrderedJson one = {{"role", "user"}, {"content", "a"}};
  const OrderedJson long_one = {{"messages", OrderedJson(16'385, one)}};
  for (const char* path : {"/tokenize", "/v1/chat/completions/render", "/v1/chat/completions"}) {
    expect_error(server.post(path, with_calls.dump()), 400, "messages[1].tool_calls", nullptr,
                 "must have up to 256 entries, found 257");
    expect_error(server.post(path, long_one.dump()), 400, "messages", nullptr,
                 "1 to 16384 entries, found 16385");
  }
  const OrderedJson input = {{"input", OrderedJson(16'385, one)}};
  EXPECT_EQ(server.post("/v1/responses/input_tokens", input.dump()).status, 400);
}

}  // namespace
}  // namespace lockstep::openai
