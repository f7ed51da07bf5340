// SPDX-License-Identifier: Apache-2.0
// Tags of chat templates that a tokenizer spells in pieces are found; text that only looks like a
// tag is not.
#include "coordinator/text/template/template_tags.h"

#include "gmock/gmock.h"
#include "tests/coordinator/text/test_data.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> tags(const std::string& source, const char* tokenizer) {
  const auto chat = ChatTemplate::from_json(source);
  EXPECT_TRUE(chat.ok()) << chat.status();
  const auto loaded = load_tokenizer(own_tokenizer(tokenizer));
  if (!chat.ok() || loaded == nullptr) return {"not loaded"};
  return tags_without_token(*chat, *loaded);
}

constexpr char kChatMl[] =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content }}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant";

TEST(TemplateTagsTest, ATagWithoutATokenIsFoundOnce) {
  EXPECT_THAT(tags(kChatMl, "sentencepiece_like"), ElementsAre("<|im_start|>", "<|im_end|>"));
  EXPECT_THAT(tags(kChatMl, "qwen2_like"), IsEmpty());
  EXPECT_THAT(tags("<\uFF5Cturn\uFF5C>{{ messages[0].content }}", "qwen2_like"),
              ElementsAre("<\uFF5Cturn\uFF5C>"));
}

TEST(TemplateTagsTest, AllTemplatesOfAListAreChecked) {
  const auto chat = ChatTemplate::from_json({{{"name", "default"}, {"template", "<|a|>"}},
                                             {{"name", "tool_use"}, {"template", "<|b|>"}}});
  ASSERT_TRUE(chat.ok()) << chat.status();
  const auto tokenizer = load_tokenizer(own_tokenizer("qwen2_like"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(tags_without_token(*chat, *tokenizer), ElementsAre("<|a|>", "<|b|>"));
}

TEST(TemplateTagsTest, TagsThatPublishedModelsSplitAreNotReported) {
  for (const char* source :
       {"{{ '<|user|>\\n' + messages[0].content + eos_token + '<|assistant|>' }}",
        "{{ '<|' + messages[0].role + '|>' }}", "<|{{ messages[0].role }}|>",
        "[INST] {{ messages[0].content }} [/INST] <<SYS>> <tools></tools> <think>",
        "{% if '<|' in messages[0].content %}<|{% endif %} a |> b", "<|>|> <||> <| x |>"}) {
    EXPECT_THAT(tags(source, "sentencepiece_like"), IsEmpty()) << source;
  }
}

TEST(TemplateTagsTest, PublishedTemplatesOfLlamasVocabularyHaveNothingToReport) {
  LOCKSTEP_NEEDS_TEST_DATA("chat_templates");
  LOCKSTEP_NEEDS_TEST_DATA("tokenizers/llama2");
  const auto tokenizer = load_tokenizer(test_data("tokenizers/llama2"));
  ASSERT_NE(tokenizer, nullptr);
  for (const char* name : {"llama-2-chat", "mistral-v0.2", "zephyr", "gemma"}) {
    const auto file = read_json(test_data("chat_templates") / (std::string(name) + ".json"));
    const auto chat = ChatTemplate::from_json(OrderedJson(file["chat_template"]));
    ASSERT_TRUE(chat.ok()) << chat.status();
    EXPECT_THAT(tags_without_token(*chat, *tokenizer), IsEmpty()) << name;
  }
}

}  // namespace
}  // namespace lockstep
