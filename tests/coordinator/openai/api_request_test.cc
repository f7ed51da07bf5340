// SPDX-License-Identifier: Apache-2.0
// Bodies of requests: how their fields are read, and that any body is read or refused.
#include "coordinator/openai/api_request.h"

#include <gtest/gtest.h>

#include <random>

#include "coordinator/openai/fields/field_table.h"
#include "tests/fuzz/openai_input.h"

namespace lockstep::openai {
namespace {

// Prompt `index` with the shared fields.
v1::GenerateRequest message_of_prompt(const ApiRequest& request, size_t index) {
  v1::GenerateRequest message = request.shared;
  message.MergeFrom(request.prompts[index]);
  return message;
}

class ApiRequestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = Model::open({});
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }
  ApiRequest parsed(Endpoint endpoint, const std::string& body) {
    auto request = parse_request(endpoint, body, *model_);
    EXPECT_TRUE(request.ok()) << request.status();
    return *std::move(request);
  }
  std::unique_ptr<Model> model_;
};

TEST_F(ApiRequestTest, FieldsBecomeGenerateRequests) {
  const ApiRequest request =
      parsed(kCompletions,
             R"({"prompt": "a", "max_tokens": 5, "min_tokens": 1, "temperature": 0.5, "top_p": 0.25,
          "top_k": 3, "min_p": 0.125, "repetition_penalty": 2, "presence_penalty": 1,
          "frequency_penalty": -1, "logit_bias": {"7": 2, "8": -3.5}, "seed": 11, "stop": "x",
          "stop_token_ids": [1, 2], "ignore_eos": true, "n": 2, "logprobs": 3})");
  ASSERT_EQ(request.prompts.size(), 1u);
  const v1::GenerateRequest message = message_of_prompt(request, 0);
  EXPECT_EQ(message.prompt(), "a");
  EXPECT_EQ(message.max_tokens(), 5);
  EXPECT_EQ(message.min_tokens(), 1);
  EXPECT_EQ(message.temperature(), 0.5f);
  EXPECT_EQ(message.top_p(), 0.25f);
  EXPECT_EQ(message.top_k(), 3);
  EXPECT_EQ(message.min_p(), 0.125f);
  EXPECT_EQ(message.repetition_penalty(), 2);
  EXPECT_EQ(message.presence_penalty(), 1);
  EXPECT_EQ(message.frequency_penalty(), -1);
  EXPECT_EQ(message.logit_bias().at(7), 2);
  EXPECT_EQ(message.logit_bias().at(8), -3.5f);
  EXPECT_EQ(message.seed(), 11u);
  EXPECT_EQ(message.stop(0), "x");
  EXPECT_EQ(message.stop_ids_size(), 2);
  EXPECT_TRUE(message.ignore_eos());
  EXPECT_EQ(message.n(), 2);
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(message.logprobs(), 3);
}

TEST_F(ApiRequestTest, DefaultsAreThoseOfOpenAi) {
  const ApiRequest completion = parsed(kCompletions, R"({"prompt": "a"})");
  EXPECT_EQ(completion.shared.max_tokens(), 16);
  EXPECT_EQ(completion.n, 1);
  EXPECT_FALSE(completion.stream);
  // The demo's generation_config.json has its own default, which to_request() uses.
  EXPECT_FALSE(
      parsed(kChat, R"({"messages": [{"role": "user", "content": "a"}]})").shared.has_max_tokens());
  EXPECT_EQ(parsed(kChat, R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 5,
                              "max_completion_tokens": 6})")
                .shared.max_tokens(),
            6);
}

TEST_F(ApiRequestTest, FieldNamesOfOtherServersAreRead) {
  const ApiRequest llama =
      parsed(kCompletions, R"({"prompt": "a", "n_predict": 7, "repeat_penalty": 1.5, "seed": -1})");
  EXPECT_EQ(llama.shared.max_tokens(), 7);
  EXPECT_EQ(llama.shared.repetition_penalty(), 1.5f);
  EXPECT_FALSE(llama.shared.has_seed()) << "-1 asks for a random seed";
  EXPECT_EQ(parsed(kCompletions, R"({"prompt": "a", "n_predict": -1})").shared.max_tokens(),
            kAllTokens);
  EXPECT_EQ(parsed(kCompletions, R"({"prompt": "a", "top_k": -1})").shared.top_k(), 0);
  EXPECT_EQ(parsed(kResponses, R"({"input": "a", "max_tokens": 2})").shared.max_tokens(), 2);
  EXPECT_EQ(parsed(kChat, R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 5,
                              "n_predict": 6})")
                .shared.max_tokens(),
            5)
      << "the field's own name takes precedence";
}

TEST_F(ApiRequestTest, SeedsHave64Bits) {
  const auto seed = [&](const std::string& value) {
    return parsed(kCompletions, R"({"prompt": "a", "seed": )" + value + "}").shared.seed();
  };
  EXPECT_EQ(seed("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(seed("9223372036854775808"), uint64_t{1} << 63);
  EXPECT_EQ(seed("-2"), UINT64_MAX - 1);
}

TEST_F(ApiRequestTest, ARefusalHasTheNameThatTheClientUsed) {
  const auto param = [&](const std::string& more) {
    const ApiRequest request =
        parsed(kChat, R"({"messages": [{"role": "user", "content": "a"}], )" + more + "}");
    const auto one = to_request(message_of_prompt(request, 0), *model_);
    EXPECT_FALSE(one.ok());
    const http::Response response = error_response(in_json_words(one.status(), request));
    return OrderedJson::parse(response.body)["error"]["param"].get<std::string>();
  };
  EXPECT_EQ(param(R"("max_tokens": -5)"), "max_tokens");
  EXPECT_EQ(param(R"("n_predict": -5)"), "n_predict");
  EXPECT_EQ(param(R"("max_tokens": 5, "max_completion_tokens": -5)"), "max_completion_tokens");
  EXPECT_EQ(param(R"("repeat_penalty": 0)"), "repeat_penalty");
  EXPECT_EQ(param(R"("cache_salt": "")"), "cache_salt");
}

TEST_F(ApiRequestTest, SeveralPromptsShareTheOtherFields) {
  const ApiRequest request =
      parsed(kCompletions, R"({"prompt": ["a", [1, 2]], "stop": ["x", "y"], "max_tokens": 3})");
  ASSERT_EQ(request.prompts.size(), 2u);
  EXPECT_EQ(request.prompts[0].prompt(), "a");
  EXPECT_FALSE(request.shared.has_prompt()) << "else each of the others would copy it";
  EXPECT_FALSE(message_of_prompt(request, 1).has_prompt());
  EXPECT_EQ(message_of_prompt(request, 1).prompt_ids().ids_size(), 2);
  for (const size_t prompt : {0, 1}) {
    EXPECT_EQ(message_of_prompt(request, prompt).stop_size(), 2);
    EXPECT_EQ(message_of_prompt(request, prompt).max_tokens(), 3);
  }
}

TEST_F(ApiRequestTest, ConversationsAreReadWithTheirCallsAndParts) {
  const ApiRequest request = parsed(kChat, R"({
      "messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
                                                {"type": "text", "text": "b"}]},
                   {"role": "assistant", "content": null, "reasoning": "hm", "tool_calls": [
                     {"id": "x", "type": "function",
                      "function": {"name": "f", "arguments": "{\"q\": 1}"}}]},
                   {"role": "tool", "tool_call_id": "x", "content": "2"}],
      "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
      "parallel_tool_calls": false, "chat_template_kwargs": {"enable_thinking": false}})");
  const v1::ChatMessages& chat = request.shared.chat();
  EXPECT_FALSE(chat.messages(0).has_content());
  EXPECT_EQ(std::vector<std::string>(chat.messages(0).content_parts().begin(),
                                     chat.messages(0).content_parts().end()),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(chat.messages(1).has_content());
  EXPECT_EQ(chat.messages(1).reasoning_content(), "hm");
  EXPECT_EQ(chat.messages(1).tool_calls(0).arguments(), "{\"q\": 1}");
  EXPECT_EQ(chat.messages(2).tool_call_id(), "x");
  EXPECT_EQ(chat.tools(0),
            R"({"type":"function","function":{"name":"f","parameters":{"type":"object"}}})");
  EXPECT_EQ(chat.template_variables(), R"({"enable_thinking":false})");
  EXPECT_TRUE(request.parses_tools);
  EXPECT_TRUE(request.one_call);
  const ApiRequest none = parsed(kChat, R"({"messages": [{"role": "user", "content": "a"}],
      "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"})");
  EXPECT_FALSE(none.parses_tools);
  EXPECT_EQ(none.shared.chat().tools_size(), 0);
}

// A value for any field: plausible, out of range, or of another type.
OrderedJson random_value(std::mt19937& random, int depth) {
  switch (random() % 12) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<int>(random() % 7) - 2;
    case 3:
      return static_cast<double>(random() % 1000) / 100 - 2;
    case 4:
      return static_cast<int64_t>(random()) << (random() % 40);
    case 5:
      return std::string(random() % 3000, 'a');
    case 6:
      return std::vector<std::string>{"text", "auto", "none", "user",
                                      "\xc3\xa9<|end|>"}[random() % 5];
    case 7:
      return OrderedJson{{"role", "user"}, {"content", "Once"}, {"type", "text"}};
    case 8:
      return OrderedJson{{"type", "function"}, {"function", {{"name", "f"}}}};
    case 9:
      return std::vector<int>(random() % 4, static_cast<int>(random() % 4000));
    default: {
      OrderedJson list = random() % 4 == 0 ? OrderedJson::object() : OrderedJson::array();
      for (uint32_t n = random() % 3; n > 0 && depth > 0; --n) {
        OrderedJson value = random_value(random, depth - 1);
        if (list.is_array()) {
          list.push_back(std::move(value));
        } else {
          list[std::to_string(random() % 20)] = std::move(value);
        }
      }
      return list;
    }
  }
}

// Seed 1: bodies with fields of the table and values of any kind, and then with changed bytes.
TEST_F(ApiRequestTest, RandomBodiesAreAcceptedOrRefusedAsTheClientsError) {
  std::mt19937 random(1);
  int taken = 0;
  for (int i = 0; i < 2'000; ++i) {
    const Endpoint endpoint = std::vector{kCompletions, kChat, kResponses}[random() % 3];
    OrderedJson body = {{"min_tokens", 3}};
    if (endpoint == kCompletions) body["prompt"] = "Once";
    if (endpoint == kChat) body["messages"] = {{{"role", "user"}, {"content", "Once"}}};
    if (endpoint == kResponses) body["input"] = "Once";
    for (uint32_t n = random() % 4; n > 0; --n) {
      body[fields()[random() % fields().size()].name] = random_value(random, 3);
    }
    std::string text = body.dump();
    for (uint32_t n = random() % 6; n > 3; --n) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    taken += check_openai_input(endpoint, text, *model_);
  }
  EXPECT_GT(taken, 300);
}

}  // namespace
}  // namespace lockstep::openai
