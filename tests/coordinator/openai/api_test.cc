// SPDX-License-Identifier: Apache-2.0
// The routes as clients see them.
#include "coordinator/openai/api.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "tests/coordinator/openai/api_server.h"
#include "tests/coordinator/openai/bodies.h"

namespace lockstep::openai {
namespace {

TEST(OpenAiApiTest, SpecialTokensAreShownOnRequest) {
  ApiServer server;
  const int32_t special = *server.model().tokenizer()->bos_id();
  OrderedJson body = {{"prompt", "a"},
                      {"max_tokens", 2},
                      {"temperature", 0},
                      {"logit_bias", {{std::to_string(special), 100}}}};
  EXPECT_EQ(server.post_json("/v1/completions", body)["choices"][0]["text"], "");
  body["skip_special_tokens"] = false;
  const std::string text = server.model().tokenizer()->token_text(special);
  EXPECT_EQ(server.post_json("/v1/completions", body)["choices"][0]["text"], text + text);
}

TEST(OpenAiApiTest, TheModelIsListedAndFoundByItsName) {
  ApiServer server;
  const OrderedJson list = OrderedJson::parse(server.send("GET", "/v1/models", "")->wait().body);
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"][0]["id"], "demo");
  EXPECT_EQ(list["data"][0]["max_model_len"], server.model().max_context());
  EXPECT_EQ(list["data"][0]["tool_parser"], "none");
  EXPECT_EQ(list["data"][0]["reasoning_parser"], "none");
  const auto get = [&](const std::string& pattern, const std::string& path) {
    return server.send("GET", pattern, "", path)->wait();
  };
  EXPECT_EQ(get("/v1/models/{model}", "/v1/models/demo").status, 200);
  expect_error(get("/v1/models/{model}", "/v1/models/gpt"), 404, "model", "model_not_found",
               "there is no model gpt, this server has demo");
  expect_error(get("/v1/models/{organization}/{model}", "/v1/models/a/demo"), 404, "model",
               "model_not_found", "a/demo");
}

TEST(OpenAiApiTest, AModelMayHaveSeveralNames) {
  ApiServer server({}, {.names = {"first", "org/second"}});
  const OrderedJson list = OrderedJson::parse(server.send("GET", "/v1/models", "")->wait().body);
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][1]["id"], "org/second");
  const OrderedJson answer =
      server.post_json("/v1/completions", with(kStory, {{"model", "org/second"}}));
  EXPECT_EQ(answer["model"], "first");
  EXPECT_EQ(server.send("GET", "/v1/models/{organization}/{model}", "", "/v1/models/org/second")
                ->wait()
                .status,
            200);
  expect_error(server.post("/v1/completions", with(kStory, {{"model", ""}}).dump()), 404, "model",
               "model_not_found", "there is no model \"\", this server has first, org/second");
}

TEST(OpenAiApiTest, TheServersDefaultsApplyToEveryEndpoint) {
  ApiServer server({}, {.defaults = {.max_tokens = 3}});
  for (const auto& [path, body] :
       {std::pair{"/v1/completions", kStory}, std::pair{"/v1/chat/completions", kTalk}}) {
    OrderedJson without = body;
    without.erase("max_tokens");
    EXPECT_EQ(server.post_json(path, without)["usage"]["completion_tokens"], 3) << path;
  }
}

TEST(OpenAiApiTest, ACompletionHasOpenAisShape) {
  ApiServer server;
  const OrderedJson answer = server.post_json("/v1/completions", with(kStory, {{"model", "demo"}}));
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["model"], "demo");
  EXPECT_TRUE(answer["system_fingerprint"].is_null());
  ASSERT_EQ(answer["choices"].size(), 1u);
  const OrderedJson& choice = answer["choices"][0];
  EXPECT_EQ(choice["index"], 0);
  EXPECT_FALSE(choice["text"].get<std::string>().empty());
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_TRUE(choice.at("token_ids").is_null());
  EXPECT_TRUE(choice.at("prompt_token_ids").is_null());
  EXPECT_EQ(choice["finish_reason"], "length");
  const int64_t prompt = answer["usage"]["prompt_tokens"];
  EXPECT_EQ(answer["usage"]["completion_tokens"], 20);
  EXPECT_EQ(answer["usage"]["total_tokens"], prompt + 20);
}

TEST(OpenAiApiTest, AStreamedCompletionIsTheWholeOneInPieces) {
  ApiServer server;
  const OrderedJson whole = server.post_json("/v1/completions", with(kStory, {{"n", 3}}));
  const http::Response response = server.post(
      "/v1/completions",
      with(kStory, {{"n", 3}, {"stream", true}, {"stream_options", {{"include_usage", true}}}})
          .dump());
  EXPECT_EQ(header(response, "Content-Type"), "text/event-stream; charset=utf-8");
  const std::vector<SseEvent> events = events_of(response.body);
  EXPECT_EQ(events.back().data, "[DONE]");
  std::vector<std::string> texts(3);
  std::vector<std::string> reasons(3);
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    const OrderedJson chunk = OrderedJson::parse(events[i].data);
    EXPECT_EQ(chunk["object"], "text_completion");
    EXPECT_EQ(chunk["id"], OrderedJson::parse(events[0].data)["id"]);
    EXPECT_TRUE(chunk["usage"].is_null());
    const OrderedJson& choice = chunk["choices"][0];
    texts[choice["index"]] += choice["text"].get<std::string>();
    if (!choice["finish_reason"].is_null()) reasons[choice["index"]] = choice["finish_reason"];
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(texts[i], whole["choices"][i]["text"]);
    EXPECT_EQ(reasons[i], "length");
  }
  const OrderedJson usage = OrderedJson::parse(events[events.size() - 2].data);
  EXPECT_EQ(usage["choices"], OrderedJson::array());
  EXPECT_EQ(usage["usage"], whole["usage"]);
  EXPECT_EQ(usage["usage"]["completion_tokens"], 60);
}

TEST(OpenAiApiTest, TheEndsOfOpenAisRangesAreAccepted) {
  ApiServer server;
  const OrderedJson greedy =
      server.post_json("/v1/completions", with(kStory, {{"temperature", 0}}))["choices"][0];
  const OrderedJson likeliest = server.post_json(
      "/v1/completions", with(kStory, {{"temperature", 1}, {"top_p", 0}}))["choices"][0];
  EXPECT_EQ(likeliest["text"], greedy["text"]);
  const OrderedJson many = server.post_json("/v1/chat/completions", with(kTalk, {{"n", 128}}));
  EXPECT_EQ(many["choices"].size(), 128u);
}

TEST(OpenAiApiTest, AChatHasOpenAisShapeWholeAndStreamed) {
  ApiServer server;
  const OrderedJson whole = server.post_json("/v1/chat/completions", kTalk);
  EXPECT_TRUE(whole["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(whole["object"], "chat.completion");
  const OrderedJson& message = whole["choices"][0]["message"];
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_TRUE(message["refusal"].is_null());
  EXPECT_FALSE(message.contains("tool_calls"));
  const std::vector<SseEvent> events =
      events_of(server.post("/v1/chat/completions", with(kTalk, {{"stream", true}}).dump()).body);
  std::string text;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const OrderedJson chunk = OrderedJson::parse(events[i].data);
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_FALSE(chunk.contains("usage"));
    const OrderedJson& delta = chunk["choices"][0]["delta"];
    EXPECT_EQ(delta.contains("role"), i == 0);
    text += delta.value("content", "");
  }
  EXPECT_EQ(text, message["content"]);
  EXPECT_EQ(events.back().data, "[DONE]");
  // Both APIs generate from the same prompt: the template writes the begin token.
  EXPECT_EQ(server.post_json("/v1/completions", kStory)["choices"][0]["text"], text);
}

TEST(OpenAiApiTest, SeveralPromptsAreAnsweredInOrder) {
  ApiServer server;
  const OrderedJson one = server.post_json("/v1/completions", kStory);
  const OrderedJson other =
      server.post_json("/v1/completions", with(kStory, {{"prompt", {5, 6, 7}}}));
  const OrderedJson ids = server.post_json("/tokenize", {{"prompt", "Once upon a time"}})["tokens"];
  const OrderedJson both = with(kStory, {{"prompt", {ids, {5, 6, 7}}}, {"n", 2}});
  const OrderedJson answer = server.post_json("/v1/completions", both);
  ASSERT_EQ(answer["choices"].size(), 4u);
  EXPECT_EQ(answer["choices"][2]["index"], 2);
  EXPECT_EQ(answer["choices"][2]["text"], other["choices"][0]["text"]);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], one["usage"]["prompt_tokens"].get<int>() + 3);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 80);
  std::vector<std::string> texts(4);
  const auto events =
      events_of(server.post("/v1/completions", with(both, {{"stream", true}}).dump()).body);
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const OrderedJson choice = OrderedJson::parse(events[i].data)["choices"][0];
    texts[choice["index"]] += choice["text"].get<std::string>();
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(texts[i], answer["choices"][i]["text"]);
}

TEST(OpenAiApiTest, EchoPutsThePromptFirst) {
  ApiServer server;
  const std::string text = server.post_json("/v1/completions", kStory)["choices"][0]["text"];
  const OrderedJson echo = with(kStory, {{"echo", true}});
  EXPECT_EQ(server.post_json("/v1/completions", echo)["choices"][0]["text"],
            "Once upon a time" + text);
  EXPECT_EQ(
      server.post_json("/v1/completions", with(echo, {{"max_tokens", 0}}))["choices"][0]["text"],
      "Once upon a time");
  const auto events =
      events_of(server.post("/v1/completions", with(echo, {{"stream", true}}).dump()).body);
  EXPECT_TRUE(
      OrderedJson::parse(events[0].data)["choices"][0]["text"].get<std::string>().starts_with(
          "Once upon a time"));
}

TEST(OpenAiApiTest, BestOfReturnsTheMostLikelyAnswers) {
  ApiServer server;
  const OrderedJson all =
      server.post_json("/v1/completions", with(kStory, {{"n", 5}, {"logprobs", 0}}));
  std::multimap<double, std::string, std::greater<>> texts;
  for (const OrderedJson& choice : all["choices"]) {
    double sum = 0;
    for (const double logprob : choice["logprobs"]["token_logprobs"]) sum += logprob;
    texts.emplace(sum, choice["text"]);
  }
  const OrderedJson best =
      server.post_json("/v1/completions", with(kStory, {{"n", 2}, {"best_of", 5}}));
  ASSERT_EQ(best["choices"].size(), 2u);
  EXPECT_EQ(best["choices"][0]["text"], texts.begin()->second);
  EXPECT_EQ(best["choices"][1]["text"], std::next(texts.begin())->second);
  EXPECT_TRUE(best["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(best["usage"]["completion_tokens"], 100);
}

TEST(OpenAiApiTest, LogprobsHaveTheShapeOfEachEndpoint) {
  ApiServer server;
  const OrderedJson completion =
      server.post_json("/v1/completions", with(kStory, {{"logprobs", 2}}))["choices"][0];
  const OrderedJson& flat = completion["logprobs"];
  for (const char* key : {"text_offset", "token_logprobs", "tokens", "top_logprobs"}) {
    EXPECT_EQ(flat[key].size(), 20u) << key;
  }
  EXPECT_EQ(flat["text_offset"][0], 0);
  EXPECT_GE(flat["top_logprobs"][0].size(), 2u);
  for (size_t i = 0; i < flat["tokens"].size(); ++i) {
    EXPECT_EQ(flat["top_logprobs"][i].begin().key(), flat["tokens"][i]) << "its own comes first";
  }
  EXPECT_EQ(flat["top_logprobs"][0][flat["tokens"][0].get<std::string>()],
            flat["token_logprobs"][0]);
  const OrderedJson chat = server.post_json(
      "/v1/chat/completions", with(kTalk, {{"logprobs", true}, {"top_logprobs", 2}}))["choices"][0];
  const OrderedJson& content = chat["logprobs"]["content"];
  ASSERT_EQ(content.size(), 20u);
  EXPECT_EQ(content[3]["token"], flat["tokens"][3]);
  EXPECT_EQ(content[3]["logprob"], flat["token_logprobs"][3]);
  EXPECT_EQ(content[3]["top_logprobs"].size(), 2u);
  EXPECT_EQ(content[3]["bytes"].size(), content[3]["token"].get<std::string>().size());
  std::vector<OrderedJson> streamed;
  for (const SseEvent& event : events_of(
           server
               .post(
                   "/v1/chat/completions",
                   with(kTalk, {{"logprobs", true}, {"top_logprobs", 2}, {"stream", true}}).dump())
               .body)) {
    if (event.data == "[DONE]") break;
    const OrderedJson chunk = OrderedJson::parse(event.data);
    if (chunk["choices"][0]["logprobs"].is_null()) continue;
    for (const auto& entry : chunk["choices"][0]["logprobs"]["content"]) streamed.push_back(entry);
  }
  EXPECT_EQ(OrderedJson(streamed), content);
}

TEST(OpenAiApiTest, BadRequestsAre400AndNameTheField) {
  ApiServer server;
  const auto refused = [&](const OrderedJson& more, const OrderedJson& param,
                           const std::string& text) {
    expect_error(server.post("/v1/chat/completions", with(kTalk, more).dump()), 400, param, nullptr,
                 text);
  };
  refused({{"temperature", 101}}, "temperature", "temperature: must be 0 to 100, found 101");
  refused({{"temperature", "hot"}}, "temperature", "must be a number, found \"hot\"");
  refused({{"max_tokens", -1}}, "max_tokens", "max_tokens: must be 0 to");
  refused({{"priority", -1}}, "priority", "priority: must be 0 or more, found -1");
  refused({{"stop_token_ids", {99999}}}, "stop_token_ids",
          "stop_token_ids: must be token ids of 0");
  refused({{"messages", OrderedJson::array()}}, "messages", "at least one message, found none");
  refused({{"top_k", UINT64_MAX}}, "top_k",
          "must be an integer of 64 bits, found 18446744073709551615");
  refused({{"messages", {{{"role", ""}, {"content", "a"}}}}}, "messages[0].role",
          "messages[0].role: must have 1 to 64 bytes");
  refused({{"messages", {{{"role", "user"}}}}}, "messages[0].content", "found null");
  refused({{"messages", {{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}}},
          "messages[0].content[0].type", "reads no images");
  refused({{"tools", {{{"type", "retrieval"}}}}}, "tools[0].type",
          "must be \"function\" (this server has no tools of its own), found \"retrieval\"");
  refused({{"tools", {OrderedJson::object()}}}, "tools[0].type", "found null");
  refused({{"tools", {{{"type", "function"}}}}}, "tools[0]", "\"name\"");
  refused({{"chat_template_kwargs", {{"messages", 1}}}}, "chat_template_kwargs", "--template-vars");
  refused(
      {{"reasoning_effort", "huge"}}, "reasoning_effort",
      "reasoning_effort: must be none, minimal, low, medium, high, xhigh or max, found \"huge\"");
  refused({{"reasoning_effort", 3}}, "reasoning_effort", "must be a string, found 3");
  refused({{"stream_options", {{"include_usage", true}}}}, "stream_options", "\"stream\": true");
  refused({{"top_logprobs", 3}}, "top_logprobs", "\"logprobs\": true");
  refused({{"logit_bias", {{"x", 1}, {"5", 1}, {"y", 2}}}}, "logit_bias",
          "logit_bias: must have token ids as keys, found x, y");
  refused({{"logit_bias", {{"3072", 1}}}}, "logit_bias",
          "must be token ids of 0 to 3071, found 3072, which is out of vocabulary (3072 tokens)");
  // The fields are known but not supported.
  refused({{"response_format", {{"type", "json_object"}}}}, "response_format", "grammar");
  refused({{"tool_choice", "required"}}, "tool_choice", "cannot force a call");
  refused({{"functions", {{{"name", "f"}}}}}, "functions", "former name of tools");
  expect_error(server.post("/v1/completions", "{\"prompt\": NaN}"), 400, nullptr, nullptr,
               "not valid JSON");
  expect_error(server.post("/v1/completions", "[]"), 400, nullptr, nullptr,
               "must be a JSON object");
  expect_error(server.post("/v1/completions", "{}"), 400, "prompt", nullptr, "must be given");
  expect_error(server.post("/v1/completions", "{\"prompt\": \"\\ud800\"}"), 400, nullptr, nullptr,
               "not valid JSON");
  for (const char* body : {"{\"prompt\": \"\"}", "{\"prompt\": []}", "{\"prompt\": [[]]}",
                           "{\"prompt\": [\"a\", \"\"]}"}) {
    expect_error(server.post("/v1/completions", body), 400, "prompt", nullptr, "empty prompt");
  }
  expect_error(server.post("/v1/completions", with(kStory, {{"best_of", 2}, {"n", 3}}).dump()), 400,
               "best_of", nullptr, "must be n (3) or more");
  expect_error(server.post("/v1/completions", with(kStory, {{"best_of", 3}, {"n", -2}}).dump()),
               400, "n", nullptr, "must be 1 or more, found -2");
  expect_error(server.post("/v1/completions", with(kStory, {{"model", "gpt-4o"}}).dump()), 404,
               "model", "model_not_found", "there is no model gpt-4o");
}

TEST(OpenAiApiTest, ThePromptsThatAWholeAnswerRepeatsAreBounded) {
  ApiServer server;
  const Tokenizer& tokenizer = *server.model().tokenizer();
  int32_t longest = 0;
  for (int32_t id = 0; id < 3072; ++id) {
    if (tokenizer.token_text(id).size() > tokenizer.token_text(longest).size()) longest = id;
  }
  OrderedJson body = {{"prompt", std::vector(32, std::vector<int32_t>(900, longest))},
                      {"n", 128},
                      {"max_tokens", 1},
                      {"echo", true},
                      {"return_token_ids", true}};
  expect_error(server.post("/v1/completions", body.dump()), 400, "echo", nullptr,
               "echo: one answer must repeat at most 67108864 bytes of prompts in its choices");
}

TEST(OpenAiApiTest, FieldsThatChangeNothingAreAccepted) {
  ApiServer server;
  const OrderedJson plain = server.post_json("/v1/chat/completions", kTalk);
  const OrderedJson answer =
      server.post_json("/v1/chat/completions", with(kTalk, {{"response_format", {{"type", "text"}}},
                                                            {"tool_choice", "auto"},
                                                            {"tools", nullptr},
                                                            {"user", "me"},
                                                            {"store", false},
                                                            {"frequency_penalty", 0},
                                                            {"max_tokens", 20.0},
                                                            {"no_such_field", {1, 2}},
                                                            {"top_k", -1}}));
  EXPECT_EQ(answer["choices"], plain["choices"]);
  EXPECT_EQ(server.api().unknown_fields(), 1);
}

TEST(OpenAiApiTest, TheErrorForATooLongPromptHasItsOwnCodeAndBothLengths) {
  ApiServer server;
  const std::string context = std::to_string(server.model().max_context());
  const OrderedJson ids(std::vector<int>(2000, 7));
  const http::Response tokens =
      server.post("/v1/completions", with(kStory, {{"prompt", ids}}).dump());
  expect_error(tokens, 400, "prompt", "context_length_exceeded",
               "This model's maximum context length is " + context +
                   " tokens, but the request has 2000 (the prompt is too long: ");
  EXPECT_NE(tokens.body.find("must be at most "), std::string::npos) << tokens.body;
  const http::Response bytes = server.post(
      "/v1/chat/completions",
      with(kTalk, {{"messages", {{{"role", "user"}, {"content", std::string(100'000, 'a')}}}}})
          .dump());
  expect_error(bytes, 400, "messages", "context_length_exceeded", "found 100009");
  EXPECT_NE(bytes.body.find("maximum context length is " + context), std::string::npos)
      << bytes.body;
}

TEST(OpenAiApiTest, TheRequestIdOfAClientIsInHeadAndBodyOfEveryAnswer) {
  ApiServer server;
  const http::Headers named = {{"X-Request-Id", "mine-1"}};
  for (const bool streams : {false, true}) {
    const std::string body = with(kStory, {{"stream", streams}}).dump();
    const http::Response answer = server.send("POST", "/v1/completions", body, "", named)->wait();
    EXPECT_EQ(header(answer, "X-Request-Id"), "mine-1");
    EXPECT_NE(answer.body.find(R"("id":"mine-1")"), std::string::npos) << answer.body;
  }
  const http::Response refused =
      server.send("POST", "/v1/completions", R"({"prompt": 3})", "", named)->wait();
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(header(refused, "X-Request-Id"), "mine-1");
  const http::Response odd =
      server.send("POST", "/v1/completions", kStory.dump(), "", {{"X-Request-Id", "a b\r\n"}})
          ->wait();
  EXPECT_EQ(odd.status, 200);
  EXPECT_TRUE(header(odd, "X-Request-Id").starts_with("cmpl-"));
}

}  // namespace
}  // namespace lockstep::openai
