// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/output_format.h"

#include <algorithm>

#include "base/status.h"

namespace lockstep::openai {
namespace {

constexpr ToolFormat kToolFormats[] = {
    // Hermes, Qwen2.5, Qwen3. Qwen3-Coder has the same tags around XML.
    {.name = "hermes",
     .begin = "<tool_call>",
     .end = "</tool_call>",
     .sign = "<tool_call>",
     .not_sign = "<function="},
    // Llama 3.1 to 3.3. Before a call they may write <|python_tag|>, which is a special token and
    // is not shown.
    {.name = "llama3_json",
     .begin = "",
     .end = "",
     .sign = "\"parameters\": dictionary of argument"},
    // Mistral: a list of objects, or since version 11 of its tokenizer name{...}.
    {.name = "mistral", .begin = "[TOOL_CALLS]", .end = "", .named = true, .sign = "[TOOL_CALLS]"},
};

constexpr ThoughtFormat kThoughtFormats[] = {
    // DeepSeek-R1, QwQ, Qwen3.
    {.name = "think", .begin = "<think>", .end = "</think>", .sign = "</think>"},
};

bool shows(const ChatTemplate& chat_template, const ToolFormat& format) {
  return chat_template.mentions(format.sign) &&
         (format.not_sign.empty() || !chat_template.mentions(format.not_sign));
}

bool shows(const ChatTemplate& chat_template, const ThoughtFormat& format) {
  return chat_template.mentions(format.sign);
}

template <typename Format>
absl::StatusOr<const Format*> choose(const char* flag, std::span<const Format> formats,
                                     const std::string& wanted, const ChatTemplate* chat_template) {
  if (wanted == "off") return nullptr;
  std::string names = "auto";
  for (const Format& format : formats) {
    const bool fits = wanted == "auto" ? chat_template != nullptr && shows(*chat_template, format)
                                       : wanted == format.name;
    if (fits) return &format;
    names += fmt::format(", {}", format.name);
  }
  if (wanted == "auto") return nullptr;
  return invalid_argument("{} {}: want {} or off", flag, printable(wanted), names);
}

}  // namespace

std::span<const ToolFormat> tool_formats() { return kToolFormats; }
std::span<const ThoughtFormat> thought_formats() { return kThoughtFormats; }

absl::StatusOr<const ToolFormat*> choose_tool_format(const std::string& wanted,
                                                     const ChatTemplate* chat_template) {
  return choose("--tool-parser", tool_formats(), wanted, chat_template);
}

absl::StatusOr<const ThoughtFormat*> choose_thought_format(const std::string& wanted,
                                                           const ChatTemplate* chat_template) {
  return choose("--reasoning-parser", thought_formats(), wanted, chat_template);
}

bool ends_in_thought(std::span<const int32_t> prompt_ids, const ThoughtFormat& format,
                     const Tokenizer& tokenizer) {
  constexpr size_t kTailTokens = 16;  // Enough for a tag and blanks.
  const auto tail = prompt_ids.last(std::min(prompt_ids.size(), kTailTokens));
  std::string text = tokenizer.decode(tail, /*skip_special=*/false);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.ends_with(format.begin);
}

}  // namespace lockstep::openai
