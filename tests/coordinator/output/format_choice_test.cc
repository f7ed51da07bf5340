// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/format_choice.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/status.h"
#include "base/system/file.h"
#include "tests/support/files/test_data.h"

namespace lockstep {
namespace {

FormatChoice choice_of(const std::string& source) {
  const ChatTemplate chat_template = ChatTemplate::from_json(OrderedJson(source)).value();
  return choose_formats("auto", "auto", &chat_template).value();
}

std::string names_of(const std::string& source) {
  const FormatChoice choice = choice_of(source);
  return name_of(choice.tools) + "," + name_of(choice.thoughts);
}

TEST(FormatChoiceTest, AutoChoosesTheTemplatesFormat) {
  constexpr char kHermes[] =
      "<tool_call>\n{\"name\": NAME, \"arguments\": ARGUMENTS}\n</tool_call>";
  EXPECT_EQ(names_of(kHermes), "hermes,none");
  EXPECT_EQ(names_of(std::string(kHermes) + "{{ 'a'.split('</think>') }}"), "hermes,think");
  EXPECT_EQ(names_of(std::string(kHermes) + "<response>"), "ernie4.5,none");
  EXPECT_EQ(names_of("<tool_call><function=f><parameter=k>v</parameter></function></think>"),
            "qwen3_coder,think");
  EXPECT_EQ(names_of("<seed:tool_call><function=f><parameter=k></seed:think>"),
            "seed_oss,seed_oss");
  EXPECT_EQ(names_of("<tool_call>NAME<arg_key>K</arg_key></tool_call>"), "glm4.5,none");
  EXPECT_EQ(names_of("<tool_calls><tool_call>N<tool_sep><arg_key>"), "hunyuan_v3,none");
  EXPECT_EQ(names_of("<｜tool▁calls▁begin｜></think>"), "deepseek_v3,think");
  EXPECT_EQ(names_of("<｜DSML｜function_calls>"), "deepseek_v3.2,none");
  EXPECT_EQ(names_of("<|channel|>analysis"), "harmony,harmony");
  EXPECT_EQ(names_of("<|tool_calls_section_begin|>"), "kimi_k2,none");
  EXPECT_EQ(names_of("[TOOL_CALLS]"), "mistral,none");
  EXPECT_EQ(names_of("[TOOL_CALLS] [/THINK]"), "mistral,mistral");
  EXPECT_EQ(names_of("\"parameters\": dictionary of argument name"), "llama3_json,none");
  EXPECT_EQ(names_of("{{ '\"parameters\":' }} ipython"), "llama3_json,none");
  EXPECT_EQ(names_of("<|tool_call>call: <channel|>"), "gemma4,gemma4");
  EXPECT_EQ(names_of("<minimax:tool_call></think>"), "minimax_m2,think");
  EXPECT_EQ(names_of("<|tool_call|>"), "granite3,none");
  EXPECT_EQ(names_of("<tool_calls>[</tool_calls>"), "jamba,none");
  EXPECT_EQ(names_of("<answer><tool_calls>[</tool_calls>"), "hunyuan,none");
  EXPECT_EQ(names_of("<tool_calls>[</tool_calls><|extra_0|></think>"), "hunyuan,hunyuan");
  EXPECT_EQ(names_of("{{ messages }}"), "none,none");
  EXPECT_EQ(names_of("<|user|>{{ messages }}<|end|>"), "none,none");
}

TEST(FormatChoiceTest, PublishedTemplatesWithoutToolsShowNoFormat) {
  LOCKSTEP_NEEDS_TEST_DATA("chat_templates");
  int templates = 0;
  for (const auto& file : std::filesystem::directory_iterator(test_data("chat_templates"))) {
    if (file.path().extension() != ".json") continue;
    const Json golden =
        parse_json(read_file(file.path(), 1 << 20).value(), file.path().string()).value();
    EXPECT_EQ(names_of(golden["chat_template"]), "none,none") << file.path();
    ++templates;
  }
  EXPECT_GE(templates, 7);
}

// The first two templates have Hermes's tag in other formats; the third one has tags of two
// formats.
TEST(FormatChoiceTest, AutoChoosesNothingIfItIsNotCertain) {
  EXPECT_EQ(names_of("<tool_call>NAME</tool_call>"), "none,none");
  EXPECT_EQ(names_of("]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"f\"> \"arguments\""),
            "none,none");
  const FormatChoice choice = choice_of("[TOOL_CALLS] <|tool_calls_section_begin|>");
  EXPECT_EQ(choice.tools, nullptr);
  EXPECT_EQ(choice.reason, "kimi_k2 and mistral are both in the chat template");
  EXPECT_EQ(choice.line(),
            "tool parser none (kimi_k2 and mistral are both in the chat template), "
            "reasoning parser none");
  EXPECT_EQ(message_of(choice.check_tools()),
            "tools: this server cannot read calls: kimi_k2 and mistral are both in the chat "
            "template; start it with --tool-parser NAME, or with --tool-parser none to get them "
            "as text");
}

TEST(FormatChoiceTest, FlagsOverrideTheTemplate) {
  const FormatChoice named = choose_formats("qwen3.5", "none", nullptr).value();
  EXPECT_EQ(named.line(), "tool parser qwen3_coder, reasoning parser none");
  for (const char* none : {"none", "off"}) {
    const FormatChoice choice = choose_formats(none, none, nullptr).value();
    EXPECT_TRUE(choice.tools_as_text);
    EXPECT_EQ(choice.line(), "tool parser none, reasoning parser none");
  }
  EXPECT_FALSE(choose_formats("auto", "auto", nullptr)->tools_as_text);
  const std::string tools = message_of(choose_formats("x", "auto", nullptr).status());
  EXPECT_TRUE(tools.starts_with("--tool-parser x: must be auto, hermes, granite4, ")) << tools;
  EXPECT_EQ(tools.find(", think"), std::string::npos) << "think has no calls";
  const std::string thoughts = message_of(choose_formats("auto", "xlam", nullptr).status());
  EXPECT_TRUE(thoughts.starts_with("--reasoning-parser xlam: must be auto, hermes, ")) << thoughts;
  EXPECT_TRUE(thoughts.ends_with(", think or none")) << thoughts;
}

TEST(FormatChoiceTest, OtherServersNamesAreAcceptedToo) {
  for (const auto& [name, own] : {std::pair{"granite", "granite3"},
                                  {"internlm", "internlm2"},
                                  {"llama4_json", "llama3_json"},
                                  {"deepseekv31", "deepseek_v3"},
                                  {"deepseek_v32", "deepseek_v3.2"},
                                  {"minimax-m2", "minimax_m2"},
                                  {"glm45", "glm4.5"},
                                  {"step3p5", "qwen3_coder"},
                                  {"gpt-oss", "harmony"}}) {
    EXPECT_EQ(name_of(choose_formats(name, "none", nullptr)->tools), own) << name;
  }
  for (const char* name : {"qwen3", "deepseek_r1", "deepseek-r1"}) {
    EXPECT_EQ(name_of(choose_formats("none", name, nullptr)->thoughts), "think") << name;
  }
  EXPECT_FALSE(choose_formats("qwen3", "none", nullptr).ok()) << "qwen3 has no calls";
}

TEST(FormatChoiceTest, NoTwoFormatsShareAName) {
  for (const Format& format : formats()) {
    for (const auto& names : {std::vector(format.names.begin(), format.names.end()),
                              std::vector(format.aliases.begin(), format.aliases.end())}) {
      for (const std::string_view name : names) {
        if (name.empty()) continue;
        EXPECT_EQ(find_format(name), &format) << name;
      }
    }
  }
}

// A tokenizer with these tokens, ids in order; tokens with "<" or the wide bar "｜" are special.
std::unique_ptr<Tokenizer> tokenizer_of(const std::vector<std::string>& tokens) {
  Json vocabulary = Json::object(), added = Json::array();
  for (const std::string& token : tokens) {
    const auto id = static_cast<int>(vocabulary.size() + added.size());
    if (token.find('<') == token.npos && token.find("｜") == token.npos) {
      vocabulary[token] = id;
    } else {
      added.push_back({{"id", id}, {"content", token}, {"special", true}});
    }
  }
  const Json spec = {{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}},
                     {"added_tokens", added},
                     {"decoder", {{"type", "Fuse"}}}};
  auto tokenizer = Tokenizer::parse(spec.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

TEST(TagIdsTest, SpecialTokensThatAreTagsOrPartsOfTagsAreFound) {
  const auto tokenizer = tokenizer_of({"a", "<|im_end|>", "｜DSML｜", "<|tool_call_begin|>",
                                       "<tool_calls:word>", "<|action_start|>", "<other:word>"});
  ASSERT_NE(tokenizer, nullptr);
  const auto ids = [&](const char* format) {
    return tag_ids(call_tags(*find_format(format)), special_ids(*tokenizer), *tokenizer);
  };
  EXPECT_EQ(ids("deepseek_v3.2"), std::vector<int32_t>{2});
  EXPECT_EQ(ids("kimi_k2"), std::vector<int32_t>{3});
  EXPECT_EQ(ids("hunyuan_v3"), std::vector<int32_t>{4});
  EXPECT_EQ(ids("internlm2"), std::vector<int32_t>{5});
  EXPECT_EQ(ids("hermes"), std::vector<int32_t>{});
  EXPECT_EQ(special_ids(*tokenizer), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
}

TEST(ThoughtPlaceTest, TheEndOfThePromptShowsWhetherTheAnswerBeginsWithinAThought) {
  const auto tokenizer = tokenizer_of({"a", " ", "<think>", "</think>", "[THINK]", "<|message|>",
                                       "<|channel|>", "analysis", "<|end|>"});
  ASSERT_NE(tokenizer, nullptr);
  const auto place = [&](const std::vector<int32_t>& ids, const char* format) {
    return thought_place(ids, *find_format(format), *tokenizer);
  };
  EXPECT_EQ(place({}, "think"), ThoughtPlace::kBefore);
  EXPECT_EQ(place({2, 3, 0}, "think"), ThoughtPlace::kBefore);
  EXPECT_EQ(place({0, 2, 1, 1}, "think"), ThoughtPlace::kWithin);
  EXPECT_EQ(place({2, 1, 3, 1}, "think"), ThoughtPlace::kAfter);
  EXPECT_EQ(place({4}, "mistral"), ThoughtPlace::kWithin);
  EXPECT_EQ(place({6, 7, 5}, "harmony"), ThoughtPlace::kWithin);
  EXPECT_EQ(place({0, 8}, "harmony"), ThoughtPlace::kBefore);
}

TEST(FormatTest, TheDocumentationHasTheTable) {
  const std::string page = read_file(test_data("tests/../docs/http.md"), 1 << 20).value();
  EXPECT_NE(page.find(format_table()), std::string::npos) << "docs/http.md must have\n"
                                                          << format_table();
}

// TagFinder relies on this: the first tag that it finds is the only one.
TEST(FormatTest, NoTagLiesWithinAnotherOne) {
  std::set<std::string_view> names;
  for (const Format& format : formats()) {
    for (const std::string_view name : format.names) {
      EXPECT_TRUE(name.empty() || names.insert(name).second) << name;
    }
    for (const auto& tags : {call_tags(format), thought_tags(format)}) {
      for (const std::string_view tag : tags) {
        for (const std::string_view other : tags) {
          const bool lies_within = other.substr(0, other.size() - 1).find(tag) != other.npos;
          EXPECT_FALSE(lies_within && other != tag) << tag << " within " << other;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
