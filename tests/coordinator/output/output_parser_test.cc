// SPDX-License-Identifier: Apache-2.0
// Models' outputs, cut in every way: the parsed parts are always the same.
#include "coordinator/output/output_parser.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/coordinator/output/parsing.h"
#include "tests/fuzz/parser_input.h"
#include "tests/support/processor_time.h"

namespace lockstep {
namespace {

const Format* format_of(const std::string& name) { return find_format(name); }
const Format* think() { return find_format("think"); }

void expect_parsed(const OutputOptions& options, const std::string& text,
                   const std::string& expected) {
  ASSERT_EQ(parse(options, {text}).shown(), expected) << text;
  for (const auto& pieces : all_cuts(text)) {
    ASSERT_EQ(parse(options, pieces).shown(), expected) << text << " after " << pieces[0];
  }
}

TEST(OutputParserTest, EverythingIsContentWithoutFormats) {
  const std::string text = " <think>a</think> <tool_call>{\"name\": \"f\"}</tool_call> \n";
  expect_parsed({}, text, "|" + text);
}

TEST(OutputParserTest, HermesCallsAreReadAndLeftOutOfTheContent) {
  const OutputOptions options = {.tools = format_of("hermes")};
  // An output of Qwen2.5-7B-Instruct.
  expect_parsed(options,
                "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n"
                "</tool_call>",
                "||get_weather({\"city\": \"Paris\"})");
  // Two calls after words.
  expect_parsed(options,
                "Let me look.\n<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": [1, {\"y\": "
                "\"}]\"}]}}\n</tool_call>\n<tool_call>\n{\"name\": \"b\", \"arguments\": {}}\n"
                "</tool_call>",
                "|Let me look.|a({\"x\": [1, {\"y\": \"}]\"}]})|b({})");
  // The arguments come first, as a string, and words follow.
  expect_parsed(options,
                "<tool_call>{\"arguments\": \"{\\\"q\\\": \\\"\\u00e9\\\"}\", \"id\": 7, \"name\": "
                "\"s\"}</tool_call> Done <b>",
                "|Done <b>|s({\"q\": \"\xc3\xa9\"})");
  expect_parsed(options, "<tool_call>{\"name\": \"now\"}</tool_call>", "||now({})");
  expect_parsed(options,
                "<tool_call>[{\"name\":\"a\",\"arguments\":1}, {\"name\":\"b\"}]</tool_call>",
                "||a(1)|b({})");
}

TEST(OutputParserTest, TextThatIsNotACallStaysContent) {
  const OutputOptions options = {.tools = format_of("hermes")};
  for (const char* text :
       {"1 < 2 <tool", "a <tool_call", "<tool_call>\n", "<tool_call>what?</tool_call>",
        "<tool_call>{\"nam\": 1}</tool_call> x", "<tool_call>{\"name\": 5}",
        " \n lead and trail \n", "<tool_call>{\"name\": \"f\"", "<tool_call>{]", "<<tool_call",
        "<tool_call>{\"a\" 1}"}) {
    expect_parsed(options, text, "|" + std::string(text));
  }
}

TEST(OutputParserTest, ATruncatedCallKeepsItsBeginning) {
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
  // An output of Llama-3.1-8B-Instruct.
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
  // An output of Mistral-7B-Instruct-v0.3.
  expect_parsed(options,
                "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}, "
                "{\"name\": \"b\", \"arguments\": {}}]",
                "||get_weather({\"city\": \"Paris\"})|b({})");
  // The form of Mistral-Small-3.2 and Devstral.
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
  // An output of Qwen3.
  expect_parsed(options, "<think>\nOkay, so 2 < 3.\n\nYes.\n</think>\n\nHello <think>!",
                "Okay, so 2 < 3.\n\nYes.|Hello <think>!");
  expect_parsed(options, "<think>\n\n</think>\n\nHi", "|Hi");
  expect_parsed(options, "<think>never ends </thin ", "never ends </thin|");
  for (const char* text : {"Hi <think>a</think>", "\n<thin", " <thing>", "", "  "}) {
    expect_parsed(options, text, "|" + std::string(text));
  }
  // DeepSeek-R1: the prompt ends with <think>.
  expect_parsed({.thoughts = think(), .place = ThoughtPlace::kWithin}, "\nHm.</think>So.",
                "Hm.|So.");
}

TEST(OutputParserTest, CallsFollowThoughts) {
  expect_parsed({.thoughts = think(), .tools = format_of("hermes")},
                "<think>\nI need <tool_call>.\n</think>\n\n<tool_call>\n{\"name\": \"f\", "
                "\"arguments\": {\"a\": 1}}\n</tool_call>",
                "I need <tool_call>.||f({\"a\": 1})");
  expect_parsed({.thoughts = think(), .tools = format_of("llama3_json")},
                "<think>x</think> {\"name\": \"f\", \"parameters\": {}}", "x||f({})");
}

TEST(OutputParserTest, OnlyTheFirstCallIsKeptIfOneIsAllowed) {
  expect_parsed({.tools = format_of("hermes"), .one_call = true},
                "<tool_call>{\"name\": \"a\"}</tool_call><tool_call>{\"name\": \"b\"}</tool_call>",
                "||a({})");
}

// Pieces of calls and tags of all formats in any order, seed 2.
TEST(OutputParserTest, AnyTextIsParsedTheSameAtAnyCut) {
  const std::vector<std::string> words = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          "(",
                                          ")",
                                          "\"name\"",
                                          "\"arguments\"",
                                          "\"f\"",
                                          "f",
                                          "k",
                                          "n",
                                          "=",
                                          ":",
                                          ",",
                                          ";",
                                          "\"",
                                          "'",
                                          "\\",
                                          " ",
                                          "\n",
                                          "1",
                                          "<",
                                          ">",
                                          "/>",
                                          "\"k\"",
                                          "call:",
                                          "to=functions.f",
                                          "f(k='v')",
                                          "{\"name\": \"f\", \"arguments\": {",
                                          "\"k\" string=\"true\"",
                                          "functions.f:0",
                                          "```json\n",
                                          "None"};
  std::mt19937 random(2);
  for (int i = 0; i < 20'000; ++i) {
    std::string input;
    for (int n = 0; n < 3; ++n) input += static_cast<char>(random() % 256);
    for (uint32_t n = random() % 30; n > 0; --n) {
      const bool is_tag = random() % 3 == 0;
      input += is_tag ? std::string(1, static_cast<char>(0x80 + random() % 128))
                      : words[random() % words.size()];
    }
    check_parser_input(input);
  }
}

// The processor time to parse answers of this size in every format. Each answer leaves a call, a
// string or a thought open: in quadratic time each would take minutes.
double seconds_for(size_t bytes) {
  const double begin_s = thread_seconds();
  for (const Format& format : formats()) {
    const OutputOptions options = {.thoughts = format.has_thoughts() ? &format : nullptr,
                                   .tools = format.has_calls() ? &format : nullptr};
    const std::string begin(format.begins[0]),
        call(format.tagged.call.empty() ? format.headed.call : format.tagged.call);
    for (const std::string& part :
         {begin, begin + call, begin + "f(k='", begin + "{\"", std::string("["), std::string(" "),
          std::string("<"), std::string(format.thoughts[0].begin), call + "f"}) {
      std::string text = begin;
      while (!part.empty() && text.size() < bytes) text += part;
      OutputParser parser(options);
      parser.push(text);
      parser.finish();
    }
  }
  return thread_seconds() - begin_s;
}

TEST(OutputParserTest, TimeIsLinearInTheAnswer) {
  EXPECT_LT(seconds_for(1 << 16), 10 * seconds_for(1 << 14));  // Quadratic time: 16 times.
}

// A call's name is sent when it is complete, arguments as they arrive. Text that cannot begin a tag
// is sent at once.
TEST(OutputParserTest, OnlyTheBeginningOfATagIsHeldBack) {
  OutputParser parser({.thoughts = think(), .tools = format_of("qwen3_coder")});
  EXPECT_EQ(parser.push("a <tool").content, "a");
  EXPECT_EQ(parser.push("box> b").content, " <toolbox> b");
  EXPECT_TRUE(parser.push("<tool_call>\n<function=f").empty());
  EXPECT_EQ(parser.push(">").calls[0].name, "f");
  OutputParser json({.tools = format_of("hermes")});
  EXPECT_TRUE(json.push("<tool_call>{\"name\": \"f\", \"arguments\"").empty());
  EXPECT_EQ(json.push(": {\"a").calls[0].arguments, "{\"a");
  EXPECT_EQ(json.push("\": 1").calls[0].arguments, "\": 1");
}

TEST(OutputParserTest, AStringsValueIsSentWhileItGrows) {
  const std::string tools[] = {
      R"({"function": {"name": "f", "parameters": {"properties": {"k": {"type": "string"}}}}})"};
  OutputParser parser({.tools = format_of("qwen3_coder"),
                       .functions = std::make_shared<const FunctionTypes>(tools)});
  EXPECT_EQ(parser.push("<function=f><parameter=k>\na \"b\n").calls[0].arguments,
            "{\"k\": \"a \\\"b");
  EXPECT_EQ(parser.push("c</para").calls[0].arguments, "\\nc");
  EXPECT_EQ(parser.push("meter></function>").calls[0].arguments, "\"}");
}

TEST(OutputParserTest, AnIdThatTheModelWroteIsSentOnce) {
  OutputParser parser({.tools = format_of("kimi_k2")});
  const std::string call =
      "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>";
  const OutputDelta delta = parser.push(call + call);
  ASSERT_EQ(delta.calls.size(), 2u);
  EXPECT_EQ(delta.calls[0].id, "functions.f:0");
  EXPECT_EQ(delta.calls[1].id, "");
}

}  // namespace
}  // namespace lockstep
