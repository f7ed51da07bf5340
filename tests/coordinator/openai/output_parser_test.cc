// SPDX-License-Identifier: Apache-2.0
// Texts as models write them, cut in every way: what is cut out of them is always the same.
#include "coordinator/openai/output_parser.h"

#include <gtest/gtest.h>

#include <random>

#include "base/check.h"
#include "base/status.h"

namespace lockstep::openai {
namespace {

const ToolFormat* format_of(const std::string& name) {
  return choose_tool_format(name, nullptr).value();
}
const ThoughtFormat* think() { return choose_thought_format("think", nullptr).value(); }

// "thought|content|name(arguments)|..."
struct Gathered {
  std::string thought;
  std::string content;
  std::vector<std::pair<std::string, std::string>> calls;

  void add(const OutputDelta& delta) {
    thought += delta.thought;
    content += delta.content;
    for (const CallDelta& call : delta.calls) {
      if (call.index == calls.size()) calls.emplace_back(call.name, "");
      EXPECT_TRUE(call.index + 1 == calls.size() && !calls.back().first.empty());
      EXPECT_TRUE(calls.back().second.empty() || call.name.empty());
      calls.back().second += call.arguments;
    }
  }
  std::string shown() const {
    std::string text = thought + "|" + content;
    for (const auto& [name, arguments] : calls) text += "|" + name + "(" + arguments + ")";
    return text;
  }
};

std::string parse(const OutputOptions& options, const std::vector<std::string_view>& pieces) {
  OutputParser parser(options);
  Gathered gathered;
  for (const std::string_view piece : pieces) gathered.add(parser.push(piece));
  gathered.add(parser.finish());
  EXPECT_EQ(parser.has_calls(), !gathered.calls.empty());
  return gathered.shown();
}

// Whole, cut once and twice at every byte, byte by byte, and 50 times at random (seed 1).
void expect_parsed(const OutputOptions& options, const std::string& text,
                   const std::string& expected) {
  const std::string_view all = text;
  ASSERT_EQ(parse(options, {all}), expected) << text;
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < all.size(); ++i) {
    bytes.push_back(all.substr(i, 1));
    EXPECT_EQ(parse(options, {all.substr(0, i), all.substr(i)}), expected) << text << " at " << i;
    for (size_t j = i; all.size() < 120 && j < all.size(); ++j) {
      ASSERT_EQ(parse(options, {all.substr(0, i), all.substr(i, j - i), all.substr(j)}), expected)
          << text << " at " << i << " and " << j;
    }
  }
  EXPECT_EQ(parse(options, bytes), expected) << text;
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    std::vector<std::string_view> pieces;
    for (size_t at = 0; at < all.size();) {
      pieces.push_back(all.substr(at, 1 + random() % 9));
      at += pieces.back().size();
    }
    EXPECT_EQ(parse(options, pieces), expected) << text;
  }
}

TEST(OutputParserTest, WithoutFormatsEverythingIsContent) {
  const std::string text = " <think>a</think> <tool_call>{\"name\": \"f\"}</tool_call> \n";
  expect_parsed({}, text, "|" + text);
}

TEST(OutputParserTest, HermesCallsAreCutOut) {
  const OutputOptions options = {.tools = format_of("hermes")};
  // Qwen2.5-7B-Instruct.
  expect_parsed(options,
                "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n"
                "</tool_call>",
                "||get_weather({\"city\": \"Paris\"})");
  // Two, after words.
  expect_parsed(options,
                "Let me look.\n<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": [1, {\"y\": "
                "\"}]\"}]}}\n</tool_call>\n<tool_call>\n{\"name\": \"b\", \"arguments\": {}}\n"
                "</tool_call>",
                "|Let me look.|a({\"x\": [1, {\"y\": \"}]\"}]})|b({})");
  // Arguments first, as a string, and words behind.
  expect_parsed(options,
                "<tool_call>{\"arguments\": \"{\\\"q\\\": \\\"\\u00e9\\\"}\", \"id\": 7, \"name\": "
                "\"s\"}</tool_call> Done <b>",
                "|Done <b>|s({\"q\": \"\xc3\xa9\"})");
  expect_parsed(options, "<tool_call>{\"name\": \"now\"}</tool_call>", "||now({})");
  expect_parsed(options,
                "<tool_call>[{\"name\":\"a\",\"arguments\":1}, {\"name\":\"b\"}]</tool_call>",
                "||a(1)|b({})");
}

TEST(OutputParserTest, WhatIsNoCallStaysContent) {
  const OutputOptions options = {.tools = format_of("hermes")};
  for (const char* text :
       {"1 < 2 <tool", "a <tool_call", "<tool_call>\n", "<tool_call>what?</tool_call>",
        "<tool_call>{\"nam\": 1}</tool_call> x", "<tool_call>{\"name\": 5}",
        " \n lead and trail \n", "<tool_call>{\"name\": \"f\"", "<tool_call>{]", "<<tool_call",
        "<tool_call>{\"a\" 1}"}) {
    expect_parsed(options, text, "|" + std::string(text));
  }
}

TEST(OutputParserTest, ACallThatIsCutShortKeepsWhatCameOfIt) {
  const OutputOptions options = {.tools = format_of("hermes")};
  expect_parsed(options, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, 2",
                "||f({\"a\": [1, 2)");
  expect_parsed(options, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}</tool_call> x",
                "|x|f({\"a\": 1})");
  expect_parsed(options, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool",
                "||f({\"a\": 1})");
}

TEST(OutputParserTest, LlamaCallsAreTheWholeText) {
  const OutputOptions options = {.tools = format_of("llama3_json")};
  // Llama-3.1-8B-Instruct.
  expect_parsed(options,
                "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\", \"unit\": "
                "\"celsius\"}}",
                "||get_weather({\"city\": \"Paris\", \"unit\": \"celsius\"})");
  expect_parsed(
      options,
      "\n{\"type\": \"function\", \"name\": \"a\", \"parameters\": {}}; {\"name\": \"b\", "
      "\"parameters\": {\"x\": null}}",
      "||a({})|b({\"x\": null})");
  for (const char* text :
       {"Use {\"name\": \"f\", \"parameters\": {}}", "{\"city\": \"Paris\"} it is",
        "{\"name\": \"Ann\", \"age\": 5}", " {", "{}", " \n"}) {
    expect_parsed(options, text, "|" + std::string(text));
  }
}

TEST(OutputParserTest, MistralCallsHaveTwoForms) {
  const OutputOptions options = {.tools = format_of("mistral")};
  // Mistral-7B-Instruct-v0.3.
  expect_parsed(options,
                "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}, "
                "{\"name\": \"b\", \"arguments\": {}}]",
                "||get_weather({\"city\": \"Paris\"})|b({})");
  // Mistral-Small-3.2 and Devstral.
  expect_parsed(options, "[TOOL_CALLS]get_weather{\"city\": \"Paris\"}[TOOL_CALLS]b-2{\"x\": {}}",
                "||get_weather({\"city\": \"Paris\"})|b-2({\"x\": {}})");
  expect_parsed(options, "Wait. [TOOL_CALLS]f[CALL_ID]123456789[ARGS]{\"a\": 1}",
                "|Wait.|f({\"a\": 1})");
  for (const char* text : {"[1, 2]", "[TOOL_CALLS] is a tag", "[TOOL_CALLS]", "[TOOL_CALLS]f g",
                           "[TOOL_CALLS]name", "[TOOL_CALLS]]"}) {
    expect_parsed(options, text, "|" + std::string(text));
  }
}

TEST(OutputParserTest, ThoughtsAreAtTheBeginning) {
  const OutputOptions options = {.thoughts = think()};
  // Qwen3.
  expect_parsed(options, "<think>\nOkay, so 2 < 3.\n\nYes.\n</think>\n\nHello <think>!",
                "Okay, so 2 < 3.\n\nYes.|Hello <think>!");
  expect_parsed(options, "<think>\n\n</think>\n\nHi", "|Hi");
  expect_parsed(options, "<think>never ends </thin ", "never ends </thin|");
  for (const char* text : {"Hi <think>a</think>", "\n<thin", " <thing>", "", "  "}) {
    expect_parsed(options, text, "|" + std::string(text));
  }
  // DeepSeek-R1: the prompt ends with <think>.
  expect_parsed({.thoughts = think(), .in_thought = true}, "\nHm.</think>So.", "Hm.|So.");
}

TEST(OutputParserTest, CallsFollowThoughts) {
  expect_parsed({.thoughts = think(), .tools = format_of("hermes")},
                "<think>\nI need <tool_call>.\n</think>\n\n<tool_call>\n{\"name\": \"f\", "
                "\"arguments\": {\"a\": 1}}\n</tool_call>",
                "I need <tool_call>.||f({\"a\": 1})");
  expect_parsed({.thoughts = think(), .tools = format_of("llama3_json")},
                "<think>x</think> {\"name\": \"f\", \"parameters\": {}}", "x||f({})");
}

TEST(OutputParserTest, OneCallIsKeptWhereOneIsWanted) {
  expect_parsed({.tools = format_of("hermes"), .one_call = true},
                "<tool_call>{\"name\": \"a\"}</tool_call><tool_call>{\"name\": \"b\"}</tool_call>",
                "||a({})");
}

// Any text, seed 2: pieces of the formats in any order.
TEST(OutputParserTest, AnyTextIsTheSameHoweverItIsCut) {
  const std::vector<std::string> words = {"<tool_call>",
                                          "</tool_call>",
                                          "[TOOL_CALLS]",
                                          "[ARGS]",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          "\"name\"",
                                          "\"arguments\"",
                                          "\"parameters\"",
                                          ":",
                                          ",",
                                          "\"f\"",
                                          "f",
                                          " ",
                                          "\n",
                                          "\\",
                                          "\"",
                                          "1",
                                          "<",
                                          "<think>",
                                          "</think>",
                                          "\xc3\xa9",
                                          ";"};
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    std::string text = random() % 2 == 0 ? "<tool_call>{\"name\":" : "";
    for (uint32_t n = random() % 30; n > 0; --n) text += words[random() % words.size()];
    const auto& tools = tool_formats()[random() % tool_formats().size()];
    const OutputOptions options = {.thoughts = random() % 2 == 0 ? think() : nullptr,
                                   .tools = &tools};
    const std::string whole = parse(options, {text});
    std::vector<std::string_view> bytes;
    for (size_t at = 0; at < text.size(); ++at) bytes.emplace_back(&text[at], 1);
    ASSERT_EQ(parse(options, bytes), whole) << text;
  }
}

TEST(OutputFormatTest, AutoTakesWhatTheTemplateShows) {
  const auto of = [](const std::string& source) {
    const ChatTemplate chat_template = ChatTemplate::from_json(OrderedJson(source)).value();
    const ToolFormat* tools = choose_tool_format("auto", &chat_template).value();
    const ThoughtFormat* thoughts = choose_thought_format("auto", &chat_template).value();
    return std::string(tools != nullptr ? tools->name : "") + "," +
           (thoughts != nullptr ? thoughts->name : "");
  };
  EXPECT_EQ(of("<tool_call> {{ 'a' }} </think>"), "hermes,think");
  EXPECT_EQ(of("<tool_call><function=f>"), ",");
  EXPECT_EQ(of("\"name\": function name, \"parameters\": dictionary of argument name"),
            "llama3_json,");
  EXPECT_EQ(of("[TOOL_CALLS]"), "mistral,");
  EXPECT_EQ(of("{{ messages }}"), ",");
  EXPECT_EQ(choose_tool_format("auto", nullptr).value(), nullptr);
  EXPECT_EQ(choose_tool_format("off", nullptr).value(), nullptr);
  EXPECT_EQ(message_of(choose_tool_format("x", nullptr).status()),
            "--tool-parser x: want auto, hermes, llama3_json, mistral or off");
  EXPECT_EQ(message_of(choose_thought_format("x", nullptr).status()),
            "--reasoning-parser x: want auto, think or off");
}

}  // namespace
}  // namespace lockstep::openai
