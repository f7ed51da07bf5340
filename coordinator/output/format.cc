// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/format.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {
namespace {

constexpr TagPair kThink = {"<think>", "</think>"};
constexpr TagPairs kThinks = {kThink};
constexpr TaggedTags kFunctionTags = {.call = "<function=",
                                      .name_end = ">",
                                      .key = "<parameter=",
                                      .key_end = ">",
                                      .value_end = "</parameter>",
                                      .end = "</function>",
                                      .has_lines = true};

constexpr Format kFormats[] = {
    {.names = {"hermes", "granite4"},
     .aliases = {"qwen", "qwen25", "qwen3_json"},
     .models = "Hermes 2 Pro and 3, Qwen2.5, QwQ, Qwen3, Granite 4",
     .thoughts = kThinks,
     .notation = CallNotation::kJson,
     .begins = {"<tool_call>"},
     .ends = {"</tool_call>"},
     .marks = {{{"<tool_call>", "arguments"}}},
     .not_marks = {"<arg_key>", "<function=", "<invoke", "<response>"}},
    {.names = {"ernie4.5"},
     .models = "ERNIE 4.5 Thinking",
     .thoughts = kThinks,
     .wraps = {{{"<response>", "</response>"}}},
     .notation = CallNotation::kJson,
     .begins = {"<tool_call>"},
     .ends = {"</tool_call>"},
     .marks = {{{"<tool_call>", "<response>"}}},
     .not_marks = {"<|tool_call|>"}},
    {.names = {"qwen3_coder", "qwen3.5", "step3.5"},
     .aliases = {"qwen3_xml", "step3p5"},
     .models = "Qwen3-Coder, Qwen3.5 and 3.6, Step-3.5-Flash, Nemotron 3",
     .thoughts = kThinks,
     .call_ends_thought = true,
     .notation = CallNotation::kTagged,
     .begins = {"<tool_call>", "<function="},
     .ends = {"</tool_call>"},
     .tagged = kFunctionTags,
     .marks = {{{"<function=", "<parameter="}, {"<tool_call>", "<function="}}},
     .not_marks = {"<seed:tool_call>"}},
    {.names = {"deepseek_v3", "deepseek_v3.1"},
     .models = "DeepSeek V3, R1 and V3.1",
     .thoughts = kThinks,
     .notation = CallNotation::kHeaded,
     .begins = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"},
     .ends = {"<｜tool▁calls▁end｜>"},
     .headed = {.call = "<｜tool▁call▁begin｜>",
                .arguments = "<｜tool▁sep｜>",
                .end = "<｜tool▁call▁end｜>"},
     .marks = {{{"tool▁calls▁begin"}}}},
    {.names = {"deepseek_v3.2", "deepseek_v4"},
     .models = "DeepSeek V3.2 and V4",
     .thoughts = kThinks,
     .notation = CallNotation::kTagged,
     .begins = {"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"},
     .ends = {"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"},
     .tagged = {.call = "<｜DSML｜invoke name=",
                .name_end = ">",
                .key = "<｜DSML｜parameter name=",
                .key_end = ">",
                .value_end = "</｜DSML｜parameter>",
                .end = "</｜DSML｜invoke>"},
     .marks = {{{"｜DSML｜"}}}},
    {.names = {"harmony"},
     .aliases = {"openai", "openai_gptoss", "gpt-oss"},
     .models = "gpt-oss",
     .thoughts = {{{"<|channel|>analysis<|message|>", "<|end|>"}}},
     .notation = CallNotation::kHarmony,
     .begins = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"},
     .ends = {"<|end|>", "<|call|>", "<|return|>"},
     .marks = {{{"<|channel|>"}}}},
    {.names = {"kimi_k2"},
     .models = "Kimi K2, K2-Thinking, K2.5",
     .thoughts = kThinks,
     .call_ends_thought = true,
     .notation = CallNotation::kHeaded,
     .begins = {"<|tool_calls_section_begin|>", "<|tool_call_section_begin|>",
                "<|tool_call_begin|>"},
     .ends = {"<|tool_calls_section_end|>", "<|tool_call_section_end|>"},
     .headed = {.call = "<|tool_call_begin|>",
                .arguments = "<|tool_call_argument_begin|>",
                .end = "<|tool_call_end|>",
                .is_id = true},
     .marks = {{{"<|tool_calls_section_begin|>"}}}},
    {.names = {"glm4.5", "glm4.7"},
     .aliases = {"glm"},
     .models = "GLM-4.5 to 5",
     .thoughts = kThinks,
     .call_ends_thought = true,
     .notation = CallNotation::kTagged,
     .begins = {"<tool_call>"},
     .tagged = {.call = "<tool_call>",
                .key = "<arg_key>",
                .key_end = "</arg_key>",
                .value = "<arg_value>",
                .value_end = "</arg_value>",
                .end = "</tool_call>"},
     .marks = {{{"<arg_key>"}}},
     .not_marks = {"<tool_sep"}},
    {.names = {"hunyuan_v3"},
     .aliases = {"hy_v3"},
     .models = "Hy3",
     .thoughts = kThinks,
     .notation = CallNotation::kTagged,
     .begins = {"<tool_calls>", "<tool_call>"},
     .ends = {"</tool_calls>"},
     .tagged = {.call = "<tool_call>",
                .separator = "<tool_sep>",
                .key = "<arg_key>",
                .key_end = "</arg_key>",
                .value = "<arg_value>",
                .value_end = "</arg_value>",
                .end = "</tool_call>"},
     .suffixes = true,
     .marks = {{{"<tool_sep"}}}},
    // The text after the tag decides the form: a list, or a name.
    {.names = {"mistral", "mistral_v11"},
     .models = "Mistral since 7B v0.3, Devstral, Magistral, Ministral 3",
     .thoughts = {{{"[THINK]", "[/THINK]"}, kThink}},
     .notation = CallNotation::kHeaded,
     .has_json = true,
     .begins = {"[TOOL_CALLS]"},
     .headed = {.call = "[TOOL_CALLS]", .id = "[CALL_ID]", .arguments = "[ARGS]"},
     .marks = {{{"[TOOL_CALLS]"}}}},
    {.names = {"llama3_json"},
     .aliases = {"llama3", "llama4_json"},
     .models = "Llama 3.1 to 3.3",
     .notation = CallNotation::kJson,
     .is_bare = true,
     .begins = {"<|python_tag|>"},
     .marks = {{{"\"parameters\":", "ipython"}, {"\"parameters\": dictionary of argument"}}},
     .not_marks = {"<|python_start|>", "<tool_call>", "<|tool_call|>", "[TOOL_CALLS]"}},
    {.names = {"pythonic", "llama4_pythonic"},
     .models = "Llama 3.2 and 4, ToolACE",
     .notation = CallNotation::kPython,
     .has_json = true,
     .is_bare = true,
     .begins = {"<|python_start|>"},
     .ends = {"<|python_end|>"},
     .marks = {{{"<|python_start|>"}}}},
    {.names = {"gemma4"},
     .models = "Gemma 4",
     .thoughts = {{{"<|channel>thought", "<channel|>"}}},
     .thinks_again = true,
     .hidden = {"<channel|>"},
     .notation = CallNotation::kGemma,
     .begins = {"<|tool_call>"},
     .ends = {"<tool_call|>"},
     .quote = "<|\"|>",
     .marks = {{{"<|tool_call>"}}}},
    {.names = {"functiongemma"},
     .models = "FunctionGemma",
     .notation = CallNotation::kGemma,
     .begins = {"<start_function_call>"},
     .ends = {"<end_function_call>"},
     .quote = "<escape>",
     .marks = {{{"<start_function_call>"}}}},
    {.names = {"minimax_m2"},
     .aliases = {"minimax"},
     .models = "MiniMax-M2 to M2.5",
     .thoughts = kThinks,
     .notation = CallNotation::kTagged,
     .begins = {"<minimax:tool_call>"},
     .ends = {"</minimax:tool_call>"},
     .tagged = {.call = "<invoke name=",
                .name_end = ">",
                .key = "<parameter name=",
                .key_end = ">",
                .value_end = "</parameter>",
                .end = "</invoke>",
                .has_lines = true},
     .marks = {{{"<minimax:tool_call>"}}}},
    {.names = {"granite3"},
     .aliases = {"granite"},
     .models = "Granite 3",
     .thoughts = {{kThink,
                   {"Here is my thought process:", "Here is my response:"},
                   {"Here's my thought process:", "Here's my response:"}}},
     .wraps = {{{"<response>", "</response>"}}},
     .notation = CallNotation::kJson,
     .begins = {"<|tool_call|>", "<tool_call>"},
     .marks = {{{"<|tool_call|>"}}},
     .not_marks = {"<|/tool_call|>"}},
    {.names = {"seed_oss"},
     .models = "Seed-OSS",
     .thoughts = {{{"<seed:think>", "</seed:think>"}}},
     .notation = CallNotation::kTagged,
     .begins = {"<seed:tool_call>"},
     .ends = {"</seed:tool_call>"},
     .tagged = kFunctionTags,
     .marks = {{{"<seed:tool_call>"}}}},
    {.names = {"longcat"},
     .models = "LongCat-Flash",
     .thoughts = {{{"<longcat_think>", "</longcat_think>"}}},
     .notation = CallNotation::kTagged,
     .has_json = true,
     .begins = {"<longcat_tool_call>"},
     .ends = {"</longcat_tool_call>"},
     .tagged = {.call = "<longcat_tool_call>",
                .key = "<longcat_arg_key>",
                .key_end = "</longcat_arg_key>",
                .value = "<longcat_arg_value>",
                .value_end = "</longcat_arg_value>",
                .end = "</longcat_tool_call>"},
     .marks = {{{"<longcat_tool_call>"}}}},
    {.names = {"lfm2"},
     .models = "LFM2, LFM2.5",
     .thoughts = kThinks,
     .notation = CallNotation::kPython,
     .has_json = true,
     .begins = {"<|tool_call_start|>"},
     .ends = {"<|tool_call_end|>"},
     .marks = {{{"<|tool_call_start|>"}, {"<|tool_list_start|>"}}}},
    {.names = {"olmo3"},
     .models = "Olmo 3",
     .thoughts = kThinks,
     .notation = CallNotation::kPython,
     .begins = {"<function_calls>"},
     .ends = {"</function_calls>"},
     .marks = {{{"<function_calls>"}}}},
    {.names = {"command_r"},
     .aliases = {"cohere_command3", "cohere_command4"},
     .models = "Command R7B and A",
     .thoughts = {{{"<|START_THINKING|>", "<|END_THINKING|>"}}},
     .thinks_again = true,
     .hidden = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
     .notation = CallNotation::kJson,
     .begins = {"<|START_ACTION|>"},
     .ends = {"<|END_ACTION|>"},
     .json = {.name = "tool_name"},
     .marks = {{{"<|START_ACTION|>"}}}},
    {.names = {"internlm2"},
     .aliases = {"internlm", "interns1"},
     .models = "InternLM2.5 and 3, Intern-S1",
     .thoughts = kThinks,
     .notation = CallNotation::kJson,
     .begins = {"<|action_start|><|plugin|>", "<|action_start|> <|plugin|>"},
     .ends = {"<|action_end|>"},
     .marks = {{{"<|action_start|>"}, {"<|plugin|>"}}}},
    {.names = {"nemotron"},
     .models = "Nemotron Nano v2, Llama Nemotron Super v1.5",
     .thoughts = kThinks,
     .notation = CallNotation::kJson,
     .begins = {"<TOOLCALL>"},
     .ends = {"</TOOLCALL>"},
     .marks = {{{"<TOOLCALL>"}}}},
    {.names = {"hunyuan"},
     .aliases = {"hunyuan_a13b"},
     .models = "Hunyuan-A13B and 0.5B to 7B",
     .thoughts = kThinks,
     .wraps = {{{"<answer>", "</answer>"}}},
     .notation = CallNotation::kJson,
     .begins = {"<tool_calls>"},
     .ends = {"</tool_calls>"},
     .marks = {{{"<tool_calls>", "<answer>"}, {"<tool_calls>", "<|extra_0|>"}}},
     .not_marks = {"<tool_sep"}},
    {.names = {"jamba"},
     .models = "Jamba 1.5 and later",
     .thoughts = kThinks,
     .notation = CallNotation::kJson,
     .begins = {"<tool_calls>"},
     .ends = {"</tool_calls>"},
     .marks = {{{"<tool_calls>["}}},
     .not_marks = {"<answer>", "<|extra_0|>", "<tool_sep"}},
    {.names = {"apertus"},
     .models = "Apertus",
     .thoughts = {{{"<|inner_prefix|>", "<|inner_suffix|>"}}},
     .thinks_again = true,
     .notation = CallNotation::kJson,
     .begins = {"<|tools_prefix|>"},
     .ends = {"<|tools_suffix|>"},
     .json = {.name = ""},
     .marks = {{{"<|tools_prefix|>"}}}},
    {.names = {"phi4_mini"},
     .aliases = {"phi4_mini_json"},
     .models = "Phi-4-mini",
     .notation = CallNotation::kJson,
     .at_start = true,
     .begins = {"functools["},
     .marks = {{{"functools"}}}},
    {.names = {"xlam"}, .models = "xLAM-2", .notation = CallNotation::kJson, .is_bare = true},
    {.names = {"think"},
     .aliases = {"deepseek_r1", "qwen3", "qwen3-thinking", "nemotron_v3", "nemotron_3"},
     .models = "Thoughts of other models",
     .thoughts = kThinks},
};

void add(const Tags& tags, std::vector<std::string_view>* all) {
  std::ranges::copy_if(tags, std::back_inserter(*all), [](auto tag) { return !tag.empty(); });
}

void add(const TagPairs& pairs, std::vector<std::string_view>* all) {
  for (const TagPair& pair : pairs) add(Tags{pair.begin, pair.end}, all);
}

// Servers write the same name with different punctuation marks.
std::string plain(std::string_view name) {
  std::string letters;
  std::ranges::copy_if(name, std::back_inserter(letters),
                       [](char c) { return std::string_view("-_.").find(c) == std::string::npos; });
  return letters;
}

std::string in_code(std::span<const std::string_view> names) {
  std::string list;
  for (const std::string_view name : names) {
    if (!name.empty()) list += fmt::format("{}`{}`", list.empty() ? "" : ", ", name);
  }
  return list;
}

}  // namespace

std::span<const Format> formats() { return kFormats; }

const Format* find_format(std::string_view name) {
  const std::string wanted = plain(name);
  if (wanted.empty()) return nullptr;
  const auto is_wanted = [&](std::string_view one) { return plain(one) == wanted; };
  const auto* found = std::ranges::find_if(kFormats, [&](const Format& format) {
    return std::ranges::any_of(format.names, is_wanted) ||
           std::ranges::any_of(format.aliases, is_wanted);
  });
  return found == std::end(kFormats) ? nullptr : found;
}

std::vector<std::string_view> block_tags(const Format& format) {
  std::vector<std::string_view> tags;
  add(format.begins, &tags);
  add(format.ends, &tags);
  return tags;
}

std::vector<std::string_view> thought_tags(const Format& format) {
  std::vector<std::string_view> tags;
  if (format.notation == CallNotation::kHarmony) return call_tags(format);
  add(format.thoughts, &tags);
  add(format.wraps, &tags);
  add(format.hidden, &tags);
  return tags;
}

std::vector<std::string_view> call_tags(const Format& format) {
  std::vector<std::string_view> tags = block_tags(format);
  add(format.hidden, &tags);
  add(format.wraps, &tags);
  const HeadedTags& headed = format.headed;
  const TaggedTags& tagged = format.tagged;
  add(Tags{headed.call, headed.id, headed.arguments, headed.end}, &tags);
  add(Tags{tagged.call, tagged.name_end, tagged.separator, tagged.end}, &tags);
  add(Tags{tagged.key, tagged.key_end, tagged.value, tagged.value_end}, &tags);
  add(Tags{format.quote}, &tags);
  return tags;
}

std::string format_table() {
  std::string table = "| name | other servers' names | models |\n| --- | --- | --- |\n";
  for (const Format& format : kFormats) {
    table += fmt::format("| {} | {} | {} |\n", in_code(format.names), in_code(format.aliases),
                         format.models);
  }
  return table;
}

}  // namespace lockstep
