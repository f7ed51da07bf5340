// SPDX-License-Identifier: Apache-2.0
// Conversations: what the template gets, and how special tokens in them are encoded.
#include "coordinator/api/chat/chat_prompt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/source_dir.h"
#include "base/status.h"
#include "base/system/clock.h"
#include "coordinator/admission/admission.h"
#include "coordinator/api/chat/template_messages.h"
#include "coordinator/api/generate_request.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

v1::ChatMessage* add(v1::ChatMessages* chat, const std::string& role, const std::string& content) {
  v1::ChatMessage* message = chat->add_messages();
  message->set_role(role);
  message->set_content(content);
  return message;
}

// The demo model with this template.
std::unique_ptr<Model> model_with(const std::string& source) {
  const TempFolder folder;
  const std::string path = folder.path() / "chat.jinja";
  std::ofstream(path) << source;
  auto model = Model::open({.chat_template = path});
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

void expect_refused(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_NE(message_of(status).find(text), std::string::npos) << status;
  EXPECT_EQ(message_of(status).find('\n'), std::string::npos) << status;
}

TEST(ChatPromptTest, TheTemplateGetsOpenAisMessagesWithArgumentsAsObjects) {
  v1::ChatMessages chat;
  add(&chat, "user", "Hi")->set_name("Ann");
  v1::ChatMessage* call = chat.add_messages();
  call->set_role("assistant");
  call->set_reasoning_content("hm");
  v1::ToolCall* tool_call = call->add_tool_calls();
  tool_call->set_id("c1");
  tool_call->set_name("add");
  tool_call->set_arguments(R"({"b": 1, "a": 2})");
  call->add_tool_calls()->set_name("now");
  add(&chat, "tool", "3")->set_tool_call_id("c1");
  chat.add_tools(R"({"type": "function", "function": {"name": "add"}})");
  const auto request = to_template_input(chat, OrderedJson{{"enable_thinking", false}});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->messages.dump(),
            R"([{"role":"user","content":"Hi","name":"Ann"},)"
            R"({"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[)"
            R"({"id":"c1","type":"function","function":{"name":"add","arguments":{"b":1,"a":2}}},)"
            R"({"id":"","type":"function","function":{"name":"now","arguments":{}}}]},)"
            R"({"role":"tool","content":"3","tool_call_id":"c1"}])");
  EXPECT_EQ(request->tools.dump(), R"([{"type":"function","function":{"name":"add"}}])");
  EXPECT_TRUE(request->documents.is_null());
  EXPECT_EQ(request->variables.dump(), R"({"enable_thinking":false})");
  EXPECT_TRUE(request->add_generation_prompt);
}

// The time that it takes to match a message's calls with their results.
int64_t pairing_time_ns(int calls, bool same_id) {
  v1::ChatMessages chat;
  v1::ChatMessage* message = chat.add_messages();
  message->set_role("assistant");
  const auto id = [&](int i) { return same_id ? "call" : "call" + std::to_string(i); };
  for (int i = 0; i < calls; ++i) {
    v1::ToolCall* call = message->add_tool_calls();
    call->set_id(id(i));
    call->set_name("f");
  }
  for (int i = calls - 1; i >= 0; --i) add(&chat, "tool", "x")->set_tool_call_id(id(i));
  const int64_t before = thread_time_ns();
  const auto messages =
      to_template_messages(chat, {.asked = true, .several_calls = Pairing::kApart});
  const int64_t time_ns = thread_time_ns() - before;
  EXPECT_TRUE(messages.ok()) << messages.status();
  EXPECT_EQ(messages->size(), 2u * calls);
  EXPECT_EQ(messages->at(2)["tool_calls"][0]["id"], id(1));
  EXPECT_EQ(messages->at(3)["tool_call_id"], id(1));
  return time_ns;
}

// Four times as many calls take four times as long, not sixteen times.
TEST(ChatPromptTest, CallsFindTheirResultsInLinearTime) {
  for (const bool same_id : {true, false}) {
    const int64_t few = pairing_time_ns(10'000, same_id);
    EXPECT_LT(pairing_time_ns(40'000, same_id), 10 * few);
  }
}

TEST(ChatPromptTest, AnAnswerBeginsUnlessTheLastMessageIsContinued) {
  v1::ChatMessages chat;
  add(&chat, "user", "Hi");
  chat.set_continue_final_message(true);
  EXPECT_FALSE(to_template_input(chat, {})->add_generation_prompt);
  chat.set_continue_final_message(false);
  EXPECT_TRUE(to_template_input(chat, {})->add_generation_prompt);
  chat.set_add_generation_prompt(false);
  EXPECT_FALSE(to_template_input(chat, {})->add_generation_prompt);
}

TEST(ChatPromptTest, AnEmptyMessageIsContinuedIfTheTemplateReadsContentAsParts) {
  const auto model = model_with(
      "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{{ p.text }}{% endfor %}</>"
      "{% endfor %}");
  v1::ChatMessages chat;
  add(&chat, "user", "Hi");
  add(&chat, "assistant", "");
  EXPECT_EQ(render_chat(chat, *model)->bytes, "<user>Hi</><assistant></>");
  chat.set_continue_final_message(true);
  const auto text = render_chat(chat, *model);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->bytes, "<user>Hi</><assistant>");
}

TEST(ChatPromptTest, TheErrorOfAFieldThatMustBeJsonNamesTheField) {
  v1::ChatMessages chat;
  add(&chat, "user", "Hi");
  chat.add_tools("{");
  expect_refused(to_template_input(chat, {}).status(), "chat.tools[0]");
}

TEST(ChatPromptTest, ArgumentsOfEarlierCallsAreAcceptedEvenIfInvalid) {
  v1::ChatMessages chat;
  v1::ToolCall* call = add(&chat, "assistant", "")->add_tool_calls();
  call->set_name("f");
  for (const char* arguments : {"{\"a\": NaN}", "{\"a\": ", "null", "[1]", "text"}) {
    call->set_arguments(arguments);
    const auto as_object = to_template_input(chat, {});
    ASSERT_TRUE(as_object.ok()) << as_object.status();
    const auto arguments_of = [](const TemplateInput& request) {
      return request.messages[0]["tool_calls"][0]["function"]["arguments"];
    };
    EXPECT_EQ(arguments_of(*as_object), OrderedJson::object()) << arguments;
    TemplateTraits traits;
    traits.arguments_as_text = true;
    EXPECT_EQ(arguments_of(*to_template_input(chat, {}, traits)), arguments);
  }
}

TEST(ChatPromptTest, SpecialTokensInAMessageStayText) {
  const auto model = model_with("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
  v1::GenerateRequest message;
  add(message.mutable_chat(), "user", "Once <|end|><|story|>");
  const auto request = to_request(message, *model);
  ASSERT_TRUE(request.ok()) << request.status();
  const std::vector<int32_t>& ids = request->prompt_ids;
  EXPECT_EQ(std::ranges::count(ids, 0), 1);  // <|story|>, from the template.
  EXPECT_EQ(std::ranges::count(ids, 1), 1);  // <|end|>
  EXPECT_EQ(model->tokenizer()->decode(ids, /*skip_special=*/false),
            "<|story|>Once <|end|><|story|><|end|>");
}

TEST(ChatPromptTest, ARefusalByTheTemplateIsAnErrorOfTheRequest) {
  const auto model = model_with("\n{{ raise_exception('no ' ~ messages[0].role) }}");
  v1::GenerateRequest message;
  add(message.mutable_chat(), "critic", "");
  expect_refused(to_request(message, *model).status(),
                 "chat: the model's template: line 2: no critic");
  const auto endless = model_with("{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}");
  expect_refused(to_request(message, *endless).status(), "chat: the model's template: ");
}

TEST(ChatPromptTest, APromptThatCannotFitIsRefusedBeforeItIsTokenized) {
  const auto model = model_with("{{ 'a' * 100000 }}");
  v1::GenerateRequest message;
  add(message.mutable_chat(), "user", "");
  const absl::Status status = to_request(message, *model).status();
  expect_refused(status, "fewer than 65536 bytes");
  EXPECT_TRUE(is_too_long(status));
}

TEST(ChatPromptTest, ATokenBeyondTheEmbeddingIsRefusedInAPrompt) {
  const TempFolder folder;
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    std::filesystem::create_symlink(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "demo" / name,
                                    folder.path() / name);
  }
  std::ofstream(folder.path() / "tokenizer_config.json") << R"({"pad_token": "<|pad|>",
      "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}{{ pad_token }}"})";
  const auto model = Model::open({.path = folder.path()});
  ASSERT_TRUE(model.ok()) << model.status();
  v1::GenerateRequest message;
  message.set_prompt("Once");
  EXPECT_TRUE(to_request(message, **model).ok());
  message.set_prompt("Once<|pad|>");
  expect_refused(to_request(message, **model).status(), "prompt: the token <|pad|> has the id ");
  message.clear_prompt();
  add(message.mutable_chat(), "user", "Once");
  expect_refused(to_request(message, **model).status(), "chat: the token <|pad|> has the id ");
}

TEST(ChatPromptTest, TheErrorForAModelWithoutATemplateSaysHowToGiveOne) {
  const TempFolder folder;
  for (const char* name : {"config.json", "generation_config.json", "tokenizer.json",
                           "tokenizer_config.json", "model.safetensors"}) {
    std::filesystem::create_symlink(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "demo" / name,
                                    folder.path() / name);
  }
  const auto model = Model::open({.path = folder.path()});
  ASSERT_TRUE(model.ok()) << model.status();
  v1::GenerateRequest message;
  add(message.mutable_chat(), "user", "Hi");
  const absl::Status status = to_request(message, **model).status();
  expect_refused(status, "chat: the model has no chat template (chat_template.jinja, ");
  expect_refused(status, "use --chat-template FILE, or a known name");
  EXPECT_EQ(message_of(status).find(folder.path().string()), std::string::npos) << status;
  const auto named = Model::open({.path = folder.path(), .chat_template = "chatml"});
  ASSERT_TRUE(named.ok()) << named.status();
  const auto text = render_chat(message.chat(), **named);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->bytes, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_FALSE(Model::open({.path = folder.path(), .chat_template = "none.jinja"}).ok());
}

TEST(ChatPromptTest, TheDemosTemplateMakesOneStoryOfTheConversation) {
  const auto model = Model::open({});
  ASSERT_TRUE(model.ok()) << model.status();
  v1::ChatMessages chat;
  add(&chat, "system", "You are a poet.");
  add(&chat, "user", "Once upon a time ");
  add(&chat, "assistant", "there was a goose.");
  add(&chat, "user", "It rained.");
  const auto text = render_chat(chat, **model);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->bytes, "<|story|>You are a poet. Once upon a time there was a goose. It rained.");
}

}  // namespace
}  // namespace lockstep
