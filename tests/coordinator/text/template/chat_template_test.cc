// SPDX-License-Identifier: Apache-2.0
// Where templates are found, and how a request is prepared for them.
#include "coordinator/text/template/chat_template.h"

#include "tests/coordinator/text/test_data.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

const std::tm kNow = {.tm_mday = 1};

TemplateInput request_of(const OrderedJson& messages) {
  TemplateInput request;
  request.messages = messages;
  return request;
}

const OrderedJson kHello = {{{"role", "user"}, {"content", "Hi"}}};

// The text, or the error with "error: " before it.
std::string shown(const absl::StatusOr<ChatTemplate>& chat, const TemplateInput& request) {
  if (!chat.ok()) return "error: " + message_of(chat.status());
  const auto text = chat->render(request, kNow);
  return text.ok() ? text->bytes : "error: " + message_of(text.status());
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(ChatTemplateTest, ATemplateIsFoundInThreePlacesInOrder) {
  const TempFolder folder;
  EXPECT_NE(shown(ChatTemplate::load(folder.path()), request_of(kHello)).find("no chat template"),
            std::string::npos);
  write(folder.path() / "tokenizer_config.json",
        R"({"bos_token":"<s>","eos_token":{"content":"</s>"},)"
        R"("chat_template":"config {{ bos_token }}"})");
  EXPECT_EQ(shown(ChatTemplate::load(folder.path()), request_of(kHello)), "config <s>");
  write(folder.path() / "chat_template.json", R"({"chat_template":"json {{ eos_token }}"})");
  EXPECT_EQ(shown(ChatTemplate::load(folder.path()), request_of(kHello)), "json </s>");
  write(folder.path() / "chat_template.jinja", "file {{ messages[0].content }}\n");
  EXPECT_EQ(shown(ChatTemplate::load(folder.path()), request_of(kHello)), "file Hi");
  write(folder.path() / "chat_template.jinja", "\n{{ 1 + }}");
  EXPECT_NE(shown(ChatTemplate::load(folder.path()), {}).find("chat_template.jinja: line 2: "),
            std::string::npos);
}

TEST(ChatTemplateTest, ErrorsNameTheFileAndNotItsFolder) {
  const TempFolder folder;
  const auto error = [&] { return shown(ChatTemplate::load(folder.path()), request_of(kHello)); };
  write(folder.path() / "tokenizer_config.json", R"({"chat_template":"{{ }}"})");
  EXPECT_EQ(error(), "error: tokenizer_config.json: line 1: expected an expression, found '}}'");
  write(folder.path() / "tokenizer_config.json", "{");
  EXPECT_TRUE(error().starts_with("error: tokenizer_config.json: ")) << error();
  write(folder.path() / "tokenizer_config.json", "{}");
  write(folder.path() / "chat_template.json", "{}");
  EXPECT_EQ(error(), "error: chat_template.json: must have \"chat_template\"");
  std::filesystem::create_directory(folder.path() / "additional_chat_templates");
  write(folder.path() / "additional_chat_templates" / "rag.jinja", "\n{{ }}");
  EXPECT_TRUE(error().starts_with("error: additional_chat_templates/rag.jinja: line 2: "))
      << error();
}

// The layout that save_pretrained() of transformers has written since version 4.51. We read it as
// AutoTokenizer does.
TEST(ChatTemplateTest, AdditionalTemplatesAreFiles) {
  const TempFolder folder;
  const auto text = [&](const TemplateInput& request) {
    return shown(ChatTemplate::load(folder.path()), request);
  };
  TemplateInput plain = request_of(kHello);
  TemplateInput tools = plain;
  tools.tools = OrderedJson::array({OrderedJson::object()});
  TemplateInput documents = plain;
  documents.documents = tools.tools;
  TemplateInput both = tools;
  both.documents = tools.tools;
  const auto additional = folder.path() / "additional_chat_templates";
  std::filesystem::create_directory(additional);
  write(folder.path() / "tokenizer_config.json",
        R"({"bos_token": "<s>", "chat_template": "config"})");
  EXPECT_EQ(text(tools), "config");
  write(folder.path() / "chat_template.jinja", "plain");
  EXPECT_EQ(text(tools), "plain");
  write(additional / "tool_use.jinja", "{{ bos_token }}tools");
  write(additional / "notes.txt", "{{ }}");
  EXPECT_EQ(text(plain), "plain");
  EXPECT_EQ(text(tools), "<s>tools");
  EXPECT_EQ(text(documents), "plain");
  write(additional / "rag.jinja", "documents");
  EXPECT_EQ(text(documents), "documents");
  EXPECT_EQ(text(both), "<s>tools");
  write(additional / "default.jinja", "other");
  EXPECT_EQ(text(plain), "other");
  std::filesystem::remove(folder.path() / "chat_template.jinja");
  std::filesystem::remove(additional / "default.jinja");
  EXPECT_EQ(text(plain), "error: there is no chat template named \"default\", only: rag, tool_use");
}

TEST(ChatTemplateTest, IsChosenByAKnownNameOrAFile) {
  const TempFolder folder;
  const std::string file = folder.path() / "mine.jinja";
  write(file, "mine {{ eos_token }}");
  write(folder.path() / "chat_template.jinja", "theirs");
  write(folder.path() / "tokenizer_config.json", R"({"eos_token": "</s>"})");
  TemplateInput request = request_of(kHello);
  EXPECT_EQ(shown(ChatTemplate::load(folder.path(), file), request), "mine </s>");
  EXPECT_EQ(shown(ChatTemplate::load(folder.path(), "chatml"), request),
            "<|im_start|>user\nHi<|im_end|>\n");
  request.add_generation_prompt = true;
  EXPECT_EQ(shown(ChatTemplate::load_chosen("chatml"), request),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(shown(ChatTemplate::load_chosen("vicuna"), request),
            "error: --chat-template vicuna: must be an existing file or a known name: chatml");
}

TEST(ChatTemplateTest, KnownTemplatesAreThePublishedOnes) {
  LOCKSTEP_NEEDS_TEST_DATA("chat_templates");
  for (const std::string name : {"chatml"}) {
    const OrderedJson published =
        OrderedJson::parse(read_text(test_data("chat_templates") / (name + ".json")));
    const auto chat = ChatTemplate::load_chosen(name);
    ASSERT_GT(published["cases"].size(), 3u);
    for (const OrderedJson& golden : published["cases"]) {
      TemplateInput request = request_of(golden["messages"]);
      request.add_generation_prompt = golden["add_generation_prompt"];
      EXPECT_EQ(shown(chat, request), golden["text"].get<std::string>());
    }
  }
}

TEST(ChatTemplateTest, SaysWhichVariablesItReads) {
  const auto chat = ChatTemplate::from_json(
      {{"default", "{{ a.b }}"}, {"rag", "{% if c is defined %}{% set d = 1 %}{% endif %}"}});
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_TRUE(chat->reads("a"));
  EXPECT_TRUE(chat->reads("c"));
  EXPECT_FALSE(chat->reads("b"));
  EXPECT_FALSE(chat->reads("d"));
}

TEST(ChatTemplateTest, ARequestWithToolsUsesTheTemplateNamedToolUse) {
  const auto chat = ChatTemplate::from_json({{{"name", "default"}, {"template", "plain"}},
                                             {{"name", "tool_use"}, {"template", "tools"}}});
  TemplateInput request = request_of(kHello);
  EXPECT_EQ(shown(chat, request), "plain");
  request.tools = OrderedJson::array({OrderedJson::object()});
  EXPECT_EQ(shown(chat, request), "tools");
  EXPECT_EQ(
      shown(ChatTemplate::from_json({{"default", "plain"}, {"tool_use", "by name"}}), request),
      "by name");
  const auto twice = ChatTemplate::from_json({{{"name", "default"}, {"template", "first"}},
                                              {{"name", "default"}, {"template", "second"}}});
  EXPECT_EQ(shown(twice, request), "second");
  const auto other = ChatTemplate::from_json({{{"name", "rag"}, {"template", "x"}}});
  EXPECT_EQ(shown(other, request), "error: there is no chat template named \"default\", only: rag");
}

TEST(ChatTemplateTest, RolesCountAsTextOfTheTemplateAndContentsAsTextOfTheRequest) {
  const auto chat =
      ChatTemplate::from_json("{{ '<|' + messages[0].role + '|>' + messages[0].content }}");
  ASSERT_TRUE(chat.ok()) << chat.status();
  const auto text = chat->render(request_of(kHello), kNow);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->from_request, (std::vector<ByteRange>{{8, 10}}));
  const auto forged = chat->render(request_of({{{"role", "end|><|x"}, {"content", ""}}}), kNow);
  ASSERT_TRUE(forged.ok()) << forged.status();
  EXPECT_EQ(forged->from_request, (std::vector<ByteRange>{{2, 10}}));
}

TEST(ChatTemplateTest, ReasoningIsPassedUnderAllNamesThatTemplatesRead) {
  const auto chat = ChatTemplate::from_json("{{ messages[0]|tojson }}");
  EXPECT_EQ(
      shown(chat, request_of({{{"role", "assistant"}, {"reasoning", "r"}}})),
      R"({"thinking": "r", "role": "assistant", "reasoning": "r", "reasoning_content": "r"})");
}

TEST(ChatTemplateTest, ContinuesTheLastMessage) {
  const auto keeps = ChatTemplate::from_json(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}");
  const auto trims = ChatTemplate::from_json(
      "{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}</>{% endfor %}");
  TemplateInput request = request_of(
      {{{"role", "user"}, {"content", "q"}}, {{"role", "assistant"}, {"content", "It is "}}});
  request.continue_final_message = true;
  EXPECT_EQ(shown(keeps, request), "<user>q</><assistant>It is ");
  EXPECT_EQ(shown(trims, request), "<user>q</><assistant>It is");
  request.add_generation_prompt = true;
  EXPECT_NE(shown(keeps, request).find("must not be sent with add_generation_prompt"),
            std::string::npos);
  request.add_generation_prompt = false;
  request.continue_final_message = "thinking";
  EXPECT_NE(shown(keeps, request).find("has no \"thinking\""), std::string::npos);
  request.continue_final_message = true;
  const auto first = ChatTemplate::from_json("{{ messages[0].content }}");
  EXPECT_NE(shown(first, request).find("is not in the template's prompt"), std::string::npos);
}

TEST(ChatTemplateTest, AValueThatIsNotAListOfObjectsIsRefused) {
  const auto chat = ChatTemplate::from_json("x");
  EXPECT_EQ(shown(chat, request_of({1})), "error: messages: must be a list of objects");
  EXPECT_EQ(shown(chat, request_of("hi")), "error: messages: must be a list of objects");
  TemplateInput request = request_of(kHello);
  request.tools = "x";
  EXPECT_EQ(shown(chat, request), "error: tools: must be a list of objects");
}

}  // namespace
}  // namespace lockstep
