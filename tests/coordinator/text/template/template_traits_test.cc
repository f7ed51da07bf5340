// SPDX-License-Identifier: Apache-2.0
// The traits of a template, which are found by rendering small conversations.
// tests/coordinator/openai/conversations_test.cc tests the prompts that follow from these traits.
#include "coordinator/text/template/template_traits.h"

#include <gtest/gtest.h>

#include <fstream>

#include "coordinator/text/template/chat_template.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

TemplateTraits traits_of(const std::string& source) {
  const TempFolder folder;
  std::ofstream(folder.path() / "chat_template.jinja") << source;
  const auto loaded = ChatTemplate::load(folder.path());
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded->traits(/*has_tools=*/false);
}

Fate at(const std::array<Fate, 3>& fates, Place place) { return fates[static_cast<size_t>(place)]; }

TEST(TemplateTraitsTest, APlainTemplateShowsEveryRoleAndNothingElse) {
  const TemplateTraits traits =
      traits_of("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
  EXPECT_TRUE(traits.asked);
  EXPECT_EQ(traits.turn_content, ContentForm::kText);
  EXPECT_EQ(at(traits.system, Place::kLater), Fate::kShown);
  EXPECT_EQ(at(traits.developer, Place::kFirst), Fate::kShown);
  EXPECT_FALSE(traits.names.contains("developer"));
  EXPECT_EQ(traits.other_roles, Fate::kShown);
  EXPECT_EQ(traits.tools, Fate::kLeftOut);
  EXPECT_EQ(traits.documents, Fate::kLeftOut);
  EXPECT_EQ(traits.calls, Fate::kLeftOut);
  EXPECT_EQ(traits.results, Fate::kShown);
}

TEST(TemplateTraitsTest, ToolsAndDocumentsAreFoundWhereverTheyAre) {
  const TemplateTraits traits = traits_of(
      "{% for m in messages %}{{ m.content }}{% if loop.first and m.role == 'system' %}"
      "{{ tools|tojson }}{% endif %}{% endfor %}{% for d in documents or [] %}{{ d.text }}"
      "{% endfor %}");
  EXPECT_EQ(traits.tools, Fate::kShown);
  EXPECT_EQ(traits.documents, Fate::kShown);
}

TEST(TemplateTraitsTest, PlacesOfSystemTextsAreDistinguished) {
  const TemplateTraits replaces = traits_of(
      "{% set ns = namespace(s='') %}{% for m in messages if m.role == 'system' %}"
      "{% set ns.s = m.content %}{% endfor %}{{ ns.s }}"
      "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(at(replaces.system, Place::kLater), Fate::kShown);
  EXPECT_TRUE(replaces.later_instruction_replaces);
  EXPECT_FALSE(replaces.several_instructions);
  const TemplateTraits with_question = traits_of(
      "{% for m in messages if m.role != 'system' %}{% if loop.first and messages[0].role == "
      "'system' %}{{ messages[0].content }}{% endif %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(at(with_question.system, Place::kAlone), Fate::kLeftOut);
  EXPECT_EQ(at(with_question.system, Place::kFirst), Fate::kShown);
  EXPECT_EQ(at(with_question.system, Place::kLater), Fate::kLeftOut);
}

TEST(TemplateTraitsTest, RolesInQuotesAreNamed) {
  const TemplateTraits traits = traits_of(
      "{% for m in messages %}{{ m.content if m.role != \"developer\" }}{% endfor %}"
      "{# don't, 'observation' #}");
  EXPECT_TRUE(traits.names.contains("developer"));
  EXPECT_TRUE(traits.names.contains("observation"));
  EXPECT_FALSE(traits.names.contains("content"));
}

// A list of one text renders as a string does, and a longer list shows each of its texts.
TEST(TemplateTraitsTest, ListsAreAcceptedIfTheyRenderLikeStrings) {
  const auto form_of = [](const std::string& content, const char* before = "") {
    return traits_of(before + std::string("{% for m in messages %}<{{ m.role }}>") + content +
                     "{% endfor %}")
        .turn_content;
  };
  const std::string either =
      "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}";
  EXPECT_EQ(form_of(either + "{{ p.text }}{% endfor %}{% endif %}"), ContentForm::kEither);
  EXPECT_EQ(form_of(either + "{{ p.text|trim }}\n{% endfor %}{% endif %}"), ContentForm::kText);
  EXPECT_EQ(form_of(either + "{% if loop.first %}{{ p.text }}{% endif %}{% endfor %}{% endif %}"),
            ContentForm::kText);
  EXPECT_EQ(form_of("{{ m.content }}"), ContentForm::kText);
  EXPECT_EQ(form_of("{{ m.content[0].text }}"), ContentForm::kParts);
}

TEST(TemplateTraitsTest, ATemplateThatShowsNoConversationIsNotProbedFurther) {
  for (const char* source : {"{{ messages[-1].content }}", "{{ raise_exception('no') }}", "",
                             "{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}"}) {
    const TemplateTraits traits = traits_of(source);
    EXPECT_FALSE(traits.asked) << source;
    EXPECT_EQ(traits.tools, Fate::kShown) << source;
    EXPECT_EQ(traits.turn_content, ContentForm::kText) << source;
  }
}

TEST(TemplateTraitsTest, FewRenderingsFindTheTraits) {
  const auto count = [](const std::string& source) {
    const auto parsed = jinja::Template::parse(source);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    int renders = 0;
    TemplateTraits::ask(source, [&](const TemplateInput& request) -> absl::StatusOr<std::string> {
      ++renders;
      const auto all = [](std::string_view, std::string_view) { return true; };
      ASSIGN_OR_RETURN(const MarkedText text,
                       parsed->render({{"messages", &request.messages, all}}, std::tm{}));
      return text.bytes;
    });
    return renders;
  };
  EXPECT_LE(count("{{ raise_exception('no') }}"), 4);
  EXPECT_LE(count("{% for m in messages %}{{ m.content }}{{ m.tool_calls }}{% endfor %}"), 70);
  EXPECT_LE(count("{% for m in messages %}{{ m.content }}{% endfor %}"), 70);
}

TEST(TemplateTraitsTest, EachNamedTemplateHasItsOwnTraits) {
  const TempFolder folder;
  const OrderedJson turns = "{% for m in messages %}{{ m.content }}{% endfor %}";
  const OrderedJson with_tools = turns.get<std::string>() + "{{ tools|tojson }}";
  std::ofstream(folder.path() / "tokenizer_config.json") << OrderedJson{
      {"chat_template",
       {{{"name", "default"}, {"template", turns}},
        {{"name", "tool_use"}, {"template", with_tools}}}}}.dump();
  const auto loaded = ChatTemplate::load(folder.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->traits(/*has_tools=*/false).tools, Fate::kLeftOut);
  EXPECT_EQ(loaded->traits(/*has_tools=*/true).tools, Fate::kShown);
}

}  // namespace
}  // namespace lockstep
