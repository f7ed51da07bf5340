// SPDX-License-Identifier: Apache-2.0
// Tokens as clients see them: their texts and bytes, their ids, and which may be drawn.
#include <gtest/gtest.h>

#include <fstream>

#include "base/source_dir.h"
#include "coordinator/openai/answers/chunk_writer.h"
#include "coordinator/openai/answers/logprobs.h"
#include "coordinator/openai/answers/response_writer.h"
#include "coordinator/text/unicode/unicode.h"
#include "tests/coordinator/openai/api_server.h"
#include "tests/coordinator/openai/bodies.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep::openai {
namespace {

// A model whose tokenizer marks blanks and has single-byte tokens, as SentencePiece's do.
class BlankMarkingModel {
 public:
  BlankMarkingModel() {
    const std::filesystem::path data =
        std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/data/tokenizers/sentencepiece_like";
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
      std::filesystem::copy_file(data / name, folder_.path() / name);
    }
    std::ofstream(folder_.path() / "chat_template.jinja") << "{{ messages[-1].content }}";
    std::ofstream(folder_.path() / "config.json") << R"({"architectures": ["LlamaForCausalLM"],
        "model_type": "llama", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 64,
        "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5, "eos_token_id": 2})";
  }
  ModelOptions options() const {
    return {.path = folder_.path(), .weight_files = WeightFiles::kOptional};
  }

 private:
  TempFolder folder_;
};

class TokensTest : public ::testing::Test {
 protected:
  OrderedJson choice(const OrderedJson& more, const char* path = "/v1/completions") {
    const bool is_chat = std::string_view(path) == "/v1/chat/completions";
    const OrderedJson answer = server_.post_json(path, with(is_chat ? kTalk : kStory, more));
    EXPECT_TRUE(answer.contains("choices")) << answer;
    return answer.value("choices", OrderedJson::array({OrderedJson::object()}))[0];
  }
  // The chunks of a stream, except the last.
  std::vector<OrderedJson> chunks(const OrderedJson& more, const char* path = "/v1/completions") {
    const bool is_chat = std::string_view(path) == "/v1/chat/completions";
    const OrderedJson body = with(is_chat ? kTalk : kStory, more);
    std::vector<OrderedJson> all;
    for (const SseEvent& event :
         events_of(server_.post(path, with(body, {{"stream", true}}).dump()).body)) {
      if (event.data != "[DONE]") all.push_back(OrderedJson::parse(event.data));
    }
    return all;
  }
  int32_t id(const std::string& token) { return *server_.model().tokenizer()->token_id(token); }
  void expect_refused(const OrderedJson& more, const char* param, const char* text) {
    expect_error(server_.post("/v1/completions", with(kStory, more).dump()), 400, param, nullptr,
                 text);
  }

  BlankMarkingModel model_;
  ApiServer server_{{}, model_.options()};
};

// Checks that the tokens joined are the text; special tokens are not in the text.
void expect_joined(const OrderedJson& logprobs, const std::string& text) {
  std::string joined;
  for (size_t i = 0; i < logprobs["tokens"].size(); ++i) {
    const std::string token = logprobs["tokens"][i];
    EXPECT_EQ(logprobs["text_offset"][i], count_characters(joined));
    if (token != "<s>" && token != "<unk>") joined += token;
  }
  EXPECT_EQ(joined, text);
}

// Excludes single-byte tokens, which may form invalid characters.
OrderedJson without_bytes() {
  std::vector<int> ids;
  for (int id = 259; id < 500; ++id) ids.push_back(id);
  return {{"allowed_token_ids", ids}, {"logprobs", 3}, {"max_tokens", 40}};
}

TEST_F(TokensTest, TheTokensOfACompletionJoinedAreItsText) {
  for (const bool echo : {false, true}) {
    const OrderedJson body = with(without_bytes(), {{"echo", echo}, {"n", 2}});
    const OrderedJson one = choice(body);
    expect_joined(one["logprobs"], one["text"]);
    for (const OrderedJson& top : one["logprobs"]["top_logprobs"]) {
      EXPECT_TRUE(top.is_null() || top.size() >= 3) << "two have the same text: " << top;
    }
    OrderedJson streamed;
    for (const OrderedJson& chunk : chunks(body)) {
      for (const OrderedJson& part : chunk["choices"]) {
        if (part["index"] == 0 && !part["logprobs"].is_null()) {
          append_lists(part["logprobs"], &streamed);
        }
      }
    }
    EXPECT_EQ(streamed, one["logprobs"]);
  }
}

TEST_F(TokensTest, EachTokenOfAChatHasItsOwnBytes) {
  const OrderedJson content = choice({{"logprobs", true}, {"top_logprobs", 2}, {"max_tokens", 200}},
                                     "/v1/chat/completions")["logprobs"]["content"];
  int single = 0;
  for (const OrderedJson& entry : content) {
    const auto bytes = entry["bytes"].get<std::vector<uint8_t>>();
    single += bytes.size() == 1 && bytes[0] >= 0x80;
    const std::string token = entry["token"];
    if (entry["top_logprobs"][0]["logprob"] == entry["logprob"]) {
      EXPECT_EQ(entry["top_logprobs"][0]["token"], token);
    }
  }
  EXPECT_GT(single, 0) << "the test must see parts of characters";
}

TEST_F(TokensTest, APromptsIdsHaveTheSameAnswerAsItsText) {
  const OrderedJson ids = server_.post_json("/tokenize", {{"prompt", "Once upon"}})["tokens"];
  const int32_t the = id("\xE2\x96\x81the");
  for (const OrderedJson& prompt : {OrderedJson("Once upon"), ids}) {
    const OrderedJson answer = choice({{"prompt", prompt},
                                       {"allowed_token_ids", {the}},
                                       {"max_tokens", 2},
                                       {"echo", true},
                                       {"logprobs", 0}});
    EXPECT_EQ(answer["text"], "Once upon the the");
    expect_joined(answer["logprobs"], answer["text"]);
  }
}

TEST_F(TokensTest, GeneratedIdsHaveTheSameLogprobsWhenTheyAreScored) {
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    const bool is_chat = std::string_view(path) == "/v1/chat/completions";
    const OrderedJson body =
        with(is_chat ? kTalk : kStory, {{"return_token_ids", true},
                                        {"logprobs", is_chat ? OrderedJson(true) : OrderedJson(0)},
                                        {"return_tokens_as_token_ids", true},
                                        {"ignore_eos", false},
                                        {"max_tokens", 60}});
    const OrderedJson answer = server_.post_json(path, body);
    const OrderedJson& one = answer["choices"][0];
    std::vector<double> logprobs;
    if (is_chat) {
      for (const OrderedJson& entry : one["logprobs"]["content"]) {
        logprobs.push_back(entry["logprob"]);
      }
    } else {
      logprobs = one["logprobs"]["token_logprobs"].get<std::vector<double>>();
    }
    const auto prompt = (is_chat ? answer : one)["prompt_token_ids"].get<std::vector<int32_t>>();
    std::vector<int32_t> ids = prompt;
    std::ranges::copy(one["token_ids"].get<std::vector<int32_t>>(), std::back_inserter(ids));
    EXPECT_EQ(prompt.size(), answer["usage"]["prompt_tokens"]);
    EXPECT_EQ(one["token_ids"].size(), answer["usage"]["completion_tokens"]);
    ASSERT_EQ(one["token_ids"].size(), logprobs.size());
    const OrderedJson scored = choice({{"prompt", ids},
                                       {"echo", true},
                                       {"logprobs", 0},
                                       {"max_tokens", 0},
                                       {"return_tokens_as_token_ids", true}})["logprobs"];
    ASSERT_EQ(scored["tokens"].size(), ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(scored["tokens"][i], "token_id:" + std::to_string(ids[i]));
      if (i >= prompt.size()) {
        EXPECT_EQ(scored["token_logprobs"][i], logprobs[i - prompt.size()]) << "bits";
      }
    }
  }
}

TEST_F(TokensTest, AChatHasItsPromptsLogprobsBesideItsChoices) {
  const OrderedJson answer = server_.post_json(
      "/v1/chat/completions",
      with(kTalk, {{"prompt_logprobs", 1}, {"return_token_ids", true}, {"n", 2}}));
  const OrderedJson& prompt = answer["prompt_logprobs"];
  ASSERT_EQ(prompt.size(), answer["prompt_token_ids"].size());
  EXPECT_TRUE(prompt[0].is_null());
  std::string text;
  for (size_t i = 1; i < prompt.size(); ++i) {
    const std::string own = std::to_string(answer["prompt_token_ids"][i].get<int>());
    text += prompt[i].at(own)["decoded_token"].get<std::string>();
  }
  const auto first = answer["prompt_token_ids"][0].get<int32_t>();
  EXPECT_EQ(server_.model().tokenizer()->decode(std::span(&first, 1)) + text, "Once upon a time");
  EXPECT_FALSE(answer["choices"][0].contains("prompt_logprobs"));
}

TEST_F(TokensTest, AStreamHasTheIdsOfTheWholeAnswer) {
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    const bool is_chat = std::string_view(path) == "/v1/chat/completions";
    const OrderedJson more = {{"return_token_ids", true}, {"n", 2}, {"max_tokens", 30}};
    const OrderedJson whole = server_.post_json(path, with(is_chat ? kTalk : kStory, more));
    std::vector<std::vector<int32_t>> ids(2);
    std::vector<OrderedJson> prompts(2);
    for (const OrderedJson& chunk : chunks(more, path)) {
      for (const OrderedJson& part : chunk["choices"]) {
        const size_t index = part["index"];
        const OrderedJson& holder = is_chat ? chunk : part;
        EXPECT_EQ(holder.contains("prompt_token_ids"), prompts[index].is_null());
        if (prompts[index].is_null())
          prompts[index] = holder.value("prompt_token_ids", OrderedJson());
        std::ranges::copy(part["token_ids"].get<std::vector<int32_t>>(),
                          std::back_inserter(ids[index]));
      }
    }
    for (size_t index = 0; index < 2; ++index) {
      EXPECT_EQ(OrderedJson(ids[index]), whole["choices"][index]["token_ids"]);
      EXPECT_EQ(prompts[index], (is_chat ? whole : whole["choices"][index])["prompt_token_ids"]);
    }
  }
}

TEST_F(TokensTest, TheEndTokenIsShownOnlyIfIdsAreShown) {
  const OrderedJson end = {{"allowed_token_ids", {2}}, {"ignore_eos", false}};
  const OrderedJson chat =
      choice(with(end, {{"logprobs", true}}), "/v1/chat/completions")["logprobs"];
  EXPECT_EQ(chat["content"], OrderedJson::array());
  EXPECT_EQ(choice(with(end, {{"logprobs", 1}}))["logprobs"]["tokens"], OrderedJson::array());
  for (const OrderedJson& chunk : chunks(with(end, {{"logprobs", 1}}))) {
    EXPECT_TRUE(chunk["choices"][0]["logprobs"].is_null());
  }
  const OrderedJson shown = choice(with(end, {{"logprobs", 1}, {"return_token_ids", true}}));
  EXPECT_EQ(shown["token_ids"], OrderedJson({2}));
  EXPECT_EQ(shown["logprobs"]["tokens"].size(), 1u);
}

TEST_F(TokensTest, LogprobsOfNamedIdsReplaceThoseOfTheBestTokens) {
  const std::vector<int> ids = {400, 3, 131};
  const OrderedJson one = choice({{"logprobs", 5},
                                  {"logprob_token_ids", ids},
                                  {"return_tokens_as_token_ids", true},
                                  {"max_tokens", 3}});
  for (const OrderedJson& top : one["logprobs"]["top_logprobs"]) {
    for (const int id : ids) EXPECT_TRUE(top.contains("token_id:" + std::to_string(id))) << top;
    EXPECT_LE(top.size(), 4u);
  }
  const OrderedJson chat = choice({{"logprobs", true}, {"logprob_token_ids", ids}},
                                  "/v1/chat/completions")["logprobs"]["content"];
  for (const OrderedJson& entry : chat) EXPECT_EQ(entry["top_logprobs"].size(), 3u);
  expect_refused({{"logprob_token_ids", ids}}, "logprob_token_ids", "must be sent with logprobs");
  expect_refused({{"logprobs", 1}, {"logprob_token_ids", {512}}}, "logprob_token_ids", "0 to 511");
  expect_refused({{"logprobs", 1}, {"logprob_token_ids", std::vector<int>(129, 1)}},
                 "logprob_token_ids", "128 entries");
  expect_refused({{"logprobs", 1}, {"logprob_token_ids", ids}, {"max_tokens", 0}, {"echo", true}},
                 "logprob_token_ids", "max_tokens above 0, found 0");
}

TEST_F(TokensTest, OnlyAllowedIdsAreDrawnAndNoBadWords) {
  const OrderedJson drawn = choice({{"allowed_token_ids", {300, 301}},
                                    {"return_token_ids", true},
                                    {"max_tokens", 50}})["token_ids"];
  EXPECT_EQ(drawn.size(), 50u);
  for (const int id : drawn) EXPECT_TRUE(id == 300 || id == 301);
  const OrderedJson body = {{"allowed_token_ids", {id("\xE2\x96\x81the"), 301}},
                            {"bad_words", {"the"}},
                            {"return_token_ids", true},
                            {"max_tokens", 20}};
  const OrderedJson left = choice(body);
  for (const int id : left["token_ids"]) EXPECT_EQ(id, 301);
  expect_refused({{"allowed_token_ids", OrderedJson::array()}}, "allowed_token_ids", "at least");
  expect_refused({{"allowed_token_ids", {-1}}}, "allowed_token_ids", "0 to 511");
  expect_refused({{"bad_words", {" "}}}, "bad_words", "blanks");
  expect_refused({{"bad_words", "the"}}, "bad_words", "a list");
}

TEST_F(TokensTest, APromptIsTruncatedAndHasItsBeginTokenOnRequest) {
  const auto prompt_of = [&](const OrderedJson& more) {
    const OrderedJson one = choice(with(more, {{"return_token_ids", true}, {"max_tokens", 1}}));
    return one["prompt_token_ids"].get<std::vector<int32_t>>();
  };
  const std::vector<int32_t> all = prompt_of({});
  EXPECT_EQ(all[0], id("<s>"));
  EXPECT_EQ(prompt_of({{"add_special_tokens", false}}),
            std::vector<int32_t>(all.begin() + 1, all.end()));
  EXPECT_EQ(prompt_of({{"truncate_prompt_tokens", 3}}),
            std::vector<int32_t>(all.end() - 3, all.end()));
  EXPECT_EQ(prompt_of({{"truncate_prompt_tokens", 3}, {"truncation_side", "right"}}),
            std::vector<int32_t>(all.begin(), all.begin() + 3));
  EXPECT_EQ(prompt_of({{"truncate_prompt_tokens", 500}}), all);
  EXPECT_EQ(prompt_of({{"prompt", std::vector<int>(600, 300)}, {"truncate_prompt_tokens", -1}}),
            std::vector<int32_t>(511, 300));
  EXPECT_EQ(choice({{"truncate_prompt_tokens", 1}, {"echo", true}, {"max_tokens", 0}})["text"],
            server_.model().tokenizer()->decode(std::span(&all.back(), 1)));
  const OrderedJson chat =
      server_.post_json("/v1/chat/completions", with(kTalk, {{"add_special_tokens", true}}));
  EXPECT_EQ(chat["usage"]["prompt_tokens"], all.size());
  expect_refused({{"truncate_prompt_tokens", 0}}, "truncate_prompt_tokens", "found 0");
  expect_refused({{"truncate_prompt_tokens", -2}}, "truncate_prompt_tokens", "-1 to");
  expect_refused({{"truncation_side", "top"}}, "truncation_side", "left or right");
}

TEST_F(TokensTest, AResponseHasTheLogprobsOfItsMessagesTokens) {
  OrderedJson no_bytes;
  for (int id = 0; id < 259; ++id) no_bytes[std::to_string(id)] = -100;
  const OrderedJson body = {{"input", "Once upon a time"},
                            {"seed", 1},
                            {"ignore_eos", true},
                            {"logit_bias", no_bytes},
                            {"max_output_tokens", 30},
                            {"include", {"message.output_text.logprobs"}},
                            {"top_logprobs", 2}};
  const OrderedJson part = server_.post_json("/v1/responses", body)["output"][0]["content"][0];
  std::string joined;
  for (const OrderedJson& entry : part["logprobs"]) {
    joined += entry["token"].get<std::string>();
    EXPECT_EQ(entry["top_logprobs"].size(), 2u);
  }
  EXPECT_EQ(joined, part["text"]);
  OrderedJson streamed = OrderedJson::array();
  for (const SseEvent& event :
       events_of(server_.post("/v1/responses", with(body, {{"stream", true}}).dump()).body)) {
    const OrderedJson json = OrderedJson::parse(event.data);
    if (json["type"] != "response.output_text.delta") continue;
    for (const OrderedJson& entry : json["logprobs"]) streamed.push_back(entry);
  }
  EXPECT_EQ(streamed, part["logprobs"]);
}

// Each character of the text is one token, also within tags.
TEST_F(TokensTest, ThoughtsAndTagsOfAResponseAreNotInTheLogprobsOfItsMessage) {
  const Tokenizer* tokenizer = server_.model().tokenizer();
  ResponseWriter writer(std::make_shared<const AnswerFacts>(
      AnswerFacts{.endpoint = kResponses,
                  .id = "resp_1",
                  .logprobs = true,
                  .output = {.thoughts = find_format("think"), .tools = find_format("hermes")},
                  .repeated = *repeated_fields(OrderedJson::object()),
                  .tokenizer = tokenizer}));
  const std::string text = "<think>a</think>\nthe b<tool_call>{\"name\": \"f\"}</tool_call>";
  std::vector<StreamEvent> events;
  for (const char c : text) {
    const std::string token = c == '\n' ? "<0x0A>" : c == ' ' ? "\xE2\x96\x81" : std::string(1, c);
    const std::optional<int32_t> found = tokenizer->token_id(token);
    events.push_back({.text = std::string(1, c), .logprobs = {{{.id = found.value_or(0)}}}});
  }
  events.push_back({.finish_reason = FinishReason::kStop});
  const OrderedJson response = OrderedJson::parse(writer.response(events));
  const OrderedJson& message = response["output"][1]["content"][0];
  EXPECT_EQ(message["text"], "the b");
  std::string joined;
  for (const OrderedJson& entry : message["logprobs"]) joined += entry["token"];
  EXPECT_EQ(joined, "the b");
}

}  // namespace
}  // namespace lockstep::openai
