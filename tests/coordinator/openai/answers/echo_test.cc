// SPDX-License-Identifier: Apache-2.0
// echo with logprobs, as evaluations of language models use it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "coordinator/openai/answer_bounds.h"
#include "coordinator/openai/answers/whole_answer.h"
#include "tests/coordinator/openai/api_server.h"
#include "tests/coordinator/openai/bodies.h"
#include "tests/support/patience.h"

namespace lockstep::openai {
namespace {

const OrderedJson kEchoed = with(kStory, {{"echo", true}, {"logprobs", 2}});

// A stream's chunks, joined per choice.
std::vector<OrderedJson> joined(const http::Response& response, size_t choices) {
  std::vector<OrderedJson> all(choices, {{"text", ""}, {"logprobs", nullptr}});
  for (const SseEvent& event : events_of(response.body)) {
    if (event.data == "[DONE]") break;
    const OrderedJson chunk = OrderedJson::parse(event.data);
    for (const OrderedJson& choice : chunk.at("choices")) {
      OrderedJson& one = all[choice["index"]];
      one["text"] = one["text"].get<std::string>() + choice["text"].get<std::string>();
      if (!choice["logprobs"].is_null()) append_lists(choice["logprobs"], &one["logprobs"]);
      if (!choice["finish_reason"].is_null()) one["finish_reason"] = choice["finish_reason"];
    }
  }
  return all;
}

TEST(OpenAiEchoTest, LogprobsBeginWithThoseOfThePrompt) {
  ApiServer server;
  const OrderedJson ids = server.post_json("/tokenize", {{"prompt", "Once upon a time"}})["tokens"];
  const OrderedJson plain =
      server.post_json("/v1/completions", with(kStory, {{"logprobs", 2}}))["choices"][0];
  const OrderedJson choice = server.post_json("/v1/completions", kEchoed)["choices"][0];
  EXPECT_EQ(choice["text"], "Once upon a time" + plain["text"].get<std::string>());
  const OrderedJson& logprobs = choice["logprobs"];
  const size_t prompt = ids.size();
  for (const char* name : {"tokens", "token_logprobs", "top_logprobs"}) {
    ASSERT_EQ(logprobs[name].size(), prompt + 20) << name;
    EXPECT_EQ(logprobs[name][prompt + 3], plain["logprobs"][name][3]) << name;
  }
  ASSERT_EQ(logprobs["text_offset"].size(), prompt + 20);
  EXPECT_EQ(logprobs["text_offset"][prompt], 16) << "after \"Once upon a time\"";
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  std::string text;
  for (size_t i = 0; i < prompt; ++i) {
    if (i > 0) {
      EXPECT_LT(logprobs["token_logprobs"][i].get<double>(), 0);
      EXPECT_GE(logprobs["top_logprobs"][i].size(), 2u);
    }
    const std::string token = logprobs["tokens"][i];
    if (!token.starts_with('<')) {  // The begin token is not part of the text.
      EXPECT_EQ(logprobs["text_offset"][i], text.size());
      text += token;
    }
  }
  EXPECT_EQ(text, "Once upon a time");
}

TEST(OpenAiEchoTest, APromptIsEchoedAloneWithoutATokenToGenerate) {
  ApiServer server;
  const OrderedJson answer =
      server.post_json("/v1/completions", with(kEchoed, {{"max_tokens", 0}}));
  const OrderedJson& choice = answer["choices"][0];
  EXPECT_EQ(choice["text"], "Once upon a time");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), answer["usage"]["prompt_tokens"]);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 0);
}

TEST(OpenAiEchoTest, EachChoiceOfEachPromptHasItsPromptsLogprobs) {
  ApiServer server;
  const OrderedJson body =
      with(kEchoed, {{"prompt", {{5, 6, 7}, {8}}}, {"n", 2}, {"max_tokens", 3}});
  const OrderedJson choices = server.post_json("/v1/completions", body)["choices"];
  ASSERT_EQ(choices.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const OrderedJson& logprobs = choices[i]["logprobs"];
    EXPECT_EQ(logprobs["tokens"].size(), i < 2 ? 6u : 4u);
    EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  }
  EXPECT_EQ(choices[0]["logprobs"]["token_logprobs"][2],
            choices[1]["logprobs"]["token_logprobs"][2]);
}

TEST(OpenAiEchoTest, AStreamHasTheSameLogprobs) {
  ApiServer server;
  const OrderedJson prompts = {"Once upon a time", std::vector<int>(200, 7)};
  for (const size_t n : {size_t{1}, size_t{3}}) {
    for (const int max_tokens : {0, 5}) {
      const OrderedJson body =
          with(kEchoed, {{"prompt", prompts}, {"n", n}, {"max_tokens", max_tokens}});
      const OrderedJson whole = server.post_json("/v1/completions", body)["choices"];
      const auto streamed =
          joined(server.post("/v1/completions", with(body, {{"stream", true}}).dump()), 2 * n);
      ASSERT_EQ(whole.size(), streamed.size());
      for (size_t i = 0; i < whole.size(); ++i) {
        EXPECT_EQ(streamed[i]["text"], whole[i]["text"]);
        EXPECT_EQ(streamed[i]["logprobs"], whole[i]["logprobs"]);
        EXPECT_EQ(streamed[i]["finish_reason"], whole[i]["finish_reason"]);
      }
    }
  }
}

TEST(OpenAiEchoTest, PromptLogprobsAreThoseOfEchoInVllmsForm) {
  ApiServer server;
  const OrderedJson ids = server.post_json("/tokenize", {{"prompt", "Once upon a time"}})["tokens"];
  const OrderedJson echoed = server.post_json("/v1/completions", kEchoed)["choices"][0];
  for (const bool echo : {false, true}) {
    const OrderedJson body = with(echo ? kEchoed : kStory, {{"prompt_logprobs", 2}, {"n", 2}});
    const OrderedJson choices = server.post_json("/v1/completions", body)["choices"];
    for (const OrderedJson& choice : choices) {
      EXPECT_EQ(choice["logprobs"].is_null(), !echo);
      EXPECT_EQ(choice["text"].get<std::string>().starts_with("Once upon"), echo);
      const OrderedJson& prompt = choice["prompt_logprobs"];
      ASSERT_EQ(prompt.size(), ids.size());
      EXPECT_TRUE(prompt[0].is_null());
      for (size_t i = 1; i < ids.size(); ++i) {
        const OrderedJson& own = prompt[i].at(std::to_string(ids[i].get<int>()));
        EXPECT_EQ(own["logprob"], echoed["logprobs"]["token_logprobs"][i]);
        EXPECT_EQ(own["decoded_token"], echoed["logprobs"]["tokens"][i]);
        std::vector<int> ranks;
        for (const auto& [id, one] : prompt[i].items()) {
          if (!one["rank"].is_null()) ranks.push_back(one["rank"]);
        }
        EXPECT_EQ(ranks.size(), 2u);
      }
    }
  }
}

TEST(OpenAiEchoTest, SpecialTokensInPromptsOfIdsAreInTheTextAndItsOffsets) {
  ApiServer server;
  const std::string special = server.model().tokenizer()->decode(std::vector<int32_t>{0}, false);
  ASSERT_EQ(special, "<|story|>");
  for (const OrderedJson& prompt : {OrderedJson(std::vector<int>{0, 0}), OrderedJson(special)}) {
    const OrderedJson body =
        with(kEchoed, {{"prompt", prompt}, {"add_special_tokens", false}, {"max_tokens", 3}});
    const OrderedJson choice = server.post_json("/v1/completions", body)["choices"][0];
    const size_t tokens = prompt.is_array() ? 2 : 1;
    const std::string echo = prompt.is_array() ? special + special : special;
    EXPECT_TRUE(choice["text"].get<std::string>().starts_with(echo)) << choice["text"];
    const OrderedJson& logprobs = choice["logprobs"];
    EXPECT_EQ(logprobs["tokens"][tokens - 1], special);
    EXPECT_EQ(logprobs["text_offset"][tokens - 1], special.size() * (tokens - 1));
    EXPECT_EQ(logprobs["text_offset"][tokens], echo.size());
  }
}

TEST(OpenAiEchoTest, AChatRepeatsTheAssistantsLastMessage) {
  ApiServer server;
  const OrderedJson talk = with(
      kTalk,
      {{"messages",
        {{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", "Once upon"}}}},
       {"continue_final_message", true},
       {"logprobs", true}});
  const OrderedJson plain = server.post_json("/v1/chat/completions", talk)["choices"][0];
  const OrderedJson echoed = with(talk, {{"echo", true}});
  const OrderedJson choice = server.post_json("/v1/chat/completions", echoed)["choices"][0];
  const std::string text = "Once upon" + plain["message"]["content"].get<std::string>();
  EXPECT_EQ(choice["message"]["content"], text);
  EXPECT_EQ(choice["logprobs"], plain["logprobs"]);
  std::string streamed;
  for (const SseEvent& event : events_of(
           server.post("/v1/chat/completions", with(echoed, {{"stream", true}}).dump()).body)) {
    if (event.data == "[DONE]") break;
    const OrderedJson part = OrderedJson::parse(event.data)["choices"][0];
    streamed += part["delta"].value("content", "");
    EXPECT_TRUE(!part["delta"].contains("role") || part["delta"].value("content", "-").empty());
  }
  EXPECT_EQ(streamed, text);
  const OrderedJson asked = server.post_json("/v1/chat/completions", with(kTalk, {{"echo", true}}));
  EXPECT_EQ(asked["choices"][0]["message"]["content"],
            server.post_json("/v1/chat/completions", kTalk)["choices"][0]["message"]["content"])
      << "the last message is the user's";
}

TEST(OpenAiEchoTest, ImpossiblePromptLogprobsAreRefused) {
  ApiServer server;
  const auto expect_refused = [&](const OrderedJson& more, const char* what) {
    expect_error(server.post("/v1/completions", with(kStory, more).dump()), 400, "prompt_logprobs",
                 nullptr, what);
  };
  expect_refused({{"prompt_logprobs", 1}, {"stream", true}},
                 "must not be sent with \"stream\": true");
  expect_refused({{"prompt_logprobs", 21}}, "0 to 20");
  expect_refused({{"prompt_logprobs", "all"}}, "");
  expect_refused({{"prompt_logprobs", 1}, {"echo", true}, {"logprobs", 2}},
                 "must be the same as logprobs");
  std::vector<std::vector<int>> prompts(200, std::vector<int>(100, 7));
  expect_refused({{"prompt_logprobs", 2}, {"prompt", prompts}, {"n", 20}}, "fewer prompts");
}

TEST(OpenAiEchoTest, AnAnswerThatWouldBeTooLargeIsRefusedBeforeItIsComputed) {
  ApiServer server;
  std::vector<std::vector<int>> prompts(200, std::vector<int>(100, 7));
  const OrderedJson body = with(kEchoed, {{"prompt", prompts}, {"n", 20}, {"max_tokens", 0}});
  expect_error(server.post("/v1/completions", body.dump()), 400, "echo", nullptr, "set stream");
  expect_error(server.post("/v1/completions", with(body, {{"n", 21}}).dump()), 400, "prompt",
               nullptr, "4096 choices in one request, found 200 prompts times n = 21; send fewer");
  EXPECT_EQ(server.engine().stats().completion_tokens, 0);
}

int32_t longest_token(const Tokenizer& tokenizer) {
  int32_t longest = 0;
  for (int32_t id = 0; id < 3072; ++id) {
    if (tokenizer.token_text(id).size() > tokenizer.token_text(longest).size()) longest = id;
  }
  return longest;
}

// One of eight prompts runs. The others wait, with their ids of 2 KB and, maybe, with their texts.
TEST(OpenAiEchoTest, TheEchoOfAWaitingRequestCountsInItsBytes) {
  EngineOptions options;
  options.max_running = 1;
  options.max_waiting.bytes = 40 << 10;
  ApiServer server(options);
  const std::vector<int> prompt(512, longest_token(*server.model().tokenizer()));
  const OrderedJson body =
      with(kStory, {{"prompt", std::vector(8, prompt)}, {"max_tokens", 1}, {"stream", true}});
  EXPECT_EQ(server.post("/v1/completions", body.dump()).status, 200);
  expect_error(server.post("/v1/completions", with(body, {{"echo", true}}).dump()), 429, nullptr,
               "rate_limit_exceeded", "bytes");
}

TEST(OpenAiLogprobsTest, MoreLogprobsThanAnAnswerHoldsAreRefusedBeforeComputation) {
  ApiServer server;
  const OrderedJson many = {{"n", 128}, {"max_tokens", 400}, {"logprobs", true}};
  const OrderedJson chat = with(with(kTalk, many), {{"top_logprobs", 20}});
  expect_error(server.post("/v1/chat/completions", chat.dump()), 400, "top_logprobs", nullptr,
               "found 1075200; stream it");
  const OrderedJson prompts = std::vector<std::string>(10, "Once");
  const OrderedJson body = {{"prompt", prompts}, {"n", 128}, {"max_tokens", 400}, {"logprobs", 2}};
  expect_error(server.post("/v1/completions", body.dump()), 400, "logprobs", nullptr,
               "one answer must have at most 1048576 log-probabilities");
  EXPECT_EQ(server.engine().stats().completion_tokens, 0);
}

TEST(OpenAiLogprobsTest, LogprobsThatChoicesRepeatAreBounded) {
  ApiServer server;
  const OrderedJson scored = {
      {"prompt", std::vector<int>(380, 7)}, {"max_tokens", 1}, {"prompt_logprobs", 20}};
  expect_error(server.post("/v1/completions", with(scored, {{"n", 128}}).dump()), 400,
               "prompt_logprobs", nullptr, "must repeat at most 67108864 bytes of prompts");
  const OrderedJson echoed = {{"n", 64}, {"echo", true}, {"logprobs", 20}};
  expect_error(server.post("/v1/completions", with(scored, echoed).dump()), 400, "echo", nullptr,
               "must repeat at most 67108864 bytes of prompts");
  EXPECT_EQ(server.engine().stats().completion_tokens, 0);
  EXPECT_EQ(server.post("/v1/completions", with(scored, {{"n", 2}}).dump()).status, 200);
}

// A chat repeats a token's text and lists its bytes in each of its log-probabilities.
TEST(OpenAiLogprobsTest, TheBytesOfLogprobsAreBounded) {
  ApiServer server;
  const Tokenizer& tokenizer = *server.model().tokenizer();
  const std::vector<Logprob> token(128, {.id = longest_token(tokenizer), .logprob = -1.5F});
  WholeAnswer answer({.endpoint = kChat, .logprobs = true, .tokenizer = &tokenizer}, 1, 1);
  answer.add({.token_ids = {1}, .logprobs = {token}, .finish_reason = FinishReason::kLength}, 0);
  EXPECT_GT(answer.score_bytes(), std::ssize(answer.text()) / 2);
  EXPECT_LT(answer.score_bytes(), std::ssize(answer.text()) * 2);
  EXPECT_TRUE(ScoreCount::check(1000, 96 << 20).ok());
  EXPECT_THAT(ScoreCount::check(1000, (96 << 20) + 1).message(),
              ::testing::HasSubstr("must be at most 100663296 bytes"));
}

TEST(OpenAiLogprobsTest, AnAnswerWithoutMaxTokensFailsAtTheMaxNumberOfLogprobs) {
  ApiServer server;
  std::vector<int> ids(128);
  std::iota(ids.begin(), ids.end(), 0);
  const OrderedJson body = {
      {"prompt", "Once"},   {"n", 16},   {"n_predict", -1},         {"logprobs", 1},
      {"ignore_eos", true}, {"seed", 1}, {"logprob_token_ids", ids}};
  expect_error(server.post("/v1/completions", body.dump()), 400, "logprobs", nullptr,
               "one answer must have at most 1048576 log-probabilities");
  EXPECT_TRUE(becomes_true([&] { return server.engine().stats().running == 0; }));
}

}  // namespace
}  // namespace lockstep::openai
