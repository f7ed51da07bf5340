// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/format_choice.h"

#include <algorithm>

#include "base/status.h"
#include "coordinator/output/calls/json_text.h"

namespace lockstep {
namespace {

constexpr char kToolFlag[] = "--tool-parser", kReasoningFlag[] = "--reasoning-parser";

bool is_none(const std::string& wanted) { return wanted == "none" || wanted == "off"; }

bool shows(const ChatTemplate& chat_template, const Format& format) {
  const auto mentions = [&](std::string_view mark) { return chat_template.mentions(mark); };
  const auto is_shown = [&](const Tags& marks) {
    return !marks[0].empty() && std::ranges::all_of(marks, [&](std::string_view mark) {
      return mark.empty() || mentions(mark);
    });
  };
  return std::ranges::any_of(format.marks, is_shown) &&
         std::ranges::none_of(format.not_marks, [&](std::string_view mark) {
           return !mark.empty() && mentions(mark);
         });
}

bool shows_thoughts(const ChatTemplate& chat_template, const Format& format) {
  // Harmony's tag for the end of a thought also ends messages in other templates.
  if (format.notation == CallNotation::kHarmony) return shows(chat_template, format);
  return std::ranges::any_of(format.thoughts, [&](const TagPair& pair) {
    return !pair.end.empty() && chat_template.mentions(pair.end);
  });
}

absl::StatusOr<const Format*> find(const char* flag, const std::string& wanted,
                                   bool (Format::*is_one)() const) {
  const Format* found = find_format(wanted);
  if (found != nullptr && (found->*is_one)()) return found;
  std::string names = "auto";
  for (const Format& format : formats()) {
    if (!(format.*is_one)()) continue;
    for (const std::string_view name : format.names) {
      if (!name.empty()) names += fmt::format(", {}", name);
    }
  }
  return invalid_argument("{} {}: must be {} or none", flag, printable(wanted), names);
}

void choose_tools(const ChatTemplate* chat_template, FormatChoice* choice) {
  std::vector<const Format*> shown;
  for (const Format& format : formats()) {
    if (chat_template != nullptr && shows(*chat_template, format)) shown.push_back(&format);
  }
  if (shown.size() == 1) {
    choice->tools = shown[0];
  } else if (chat_template == nullptr) {
    choice->reason = "no chat template";
  } else if (shown.empty()) {
    choice->reason = "no known format of calls in the chat template";
  } else {
    choice->reason = fmt::format("{} and {} are both in the chat template", name_of(shown[0]),
                                 name_of(shown[1]));
  }
}

// Whether a format's thoughts are exactly those of the format "think".
bool only_thinks(const Format& format, const Format& think) {
  return format.thoughts[0].begin == think.thoughts[0].begin && format.thoughts[1].begin.empty() &&
         format.wraps[0].begin.empty() && !format.suffixes;
}

// The calls' format is tried first: it describes the text around calls best.
const Format* choose_thoughts(const ChatTemplate* chat_template, const Format* tools) {
  if (chat_template == nullptr) return nullptr;
  const Format* think = find_format("think");
  if (tools != nullptr && tools->has_thoughts() && !only_thinks(*tools, *think)) {
    if (shows_thoughts(*chat_template, *tools)) return tools;
  }
  if (shows_thoughts(*chat_template, *think)) return think;
  const auto found = std::ranges::find_if(formats(), [&](const Format& format) {
    return format.has_thoughts() && shows_thoughts(*chat_template, format);
  });
  return found == formats().end() ? nullptr : &*found;
}

}  // namespace

std::string name_of(const Format* format) {
  return format == nullptr ? "none" : std::string(format->names[0]);
}

// A client that offers tools waits for calls. If the server could not read calls, the client would
// get the text of a call as the answer.
absl::Status FormatChoice::check_tools() const {
  if (tools != nullptr || tools_as_text) return absl::OkStatus();
  return failed_precondition(
      "tools: this server cannot read calls: {}; start it with {} NAME, or with {} none to get "
      "them as text",
      reason, kToolFlag, kToolFlag);
}

std::string FormatChoice::line() const {
  const std::string why = reason.empty() ? "" : fmt::format(" ({})", reason);
  return fmt::format("tool parser {}{}, reasoning parser {}", name_of(tools), why,
                     name_of(thoughts));
}

absl::StatusOr<FormatChoice> choose_formats(const std::string& tool_parser,
                                            const std::string& reasoning_parser,
                                            const ChatTemplate* chat_template) {
  FormatChoice choice;
  if (is_none(tool_parser)) {
    choice.tools_as_text = true;
  } else if (tool_parser == "auto") {
    choose_tools(chat_template, &choice);
  } else {
    ASSIGN_OR_RETURN(choice.tools, find(kToolFlag, tool_parser, &Format::has_calls));
  }
  if (reasoning_parser == "auto") {
    choice.thoughts = choose_thoughts(chat_template, choice.tools);
  } else if (!is_none(reasoning_parser)) {
    ASSIGN_OR_RETURN(choice.thoughts,
                     find(kReasoningFlag, reasoning_parser, &Format::has_thoughts));
  }
  return choice;
}

std::vector<int32_t> special_ids(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_special(id)) ids.push_back(id);
  }
  return ids;
}

std::vector<int32_t> tag_ids(std::span<const std::string_view> tags,
                             std::span<const int32_t> special, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (const int32_t id : special) {
    std::string text = tokenizer.token_text(id);
    if (const size_t suffix = text.find(':'); suffix != std::string::npos && text.ends_with('>')) {
      const std::string plain = text.substr(0, suffix) + ">";
      if (std::ranges::count(tags, plain) != 0) text = plain;
    }
    const bool is_part = !text.empty() && std::ranges::any_of(tags, [&](std::string_view tag) {
      return tag.find(text) != std::string_view::npos;
    });
    if (is_part) ids.push_back(id);
  }
  return ids;
}

ThoughtPlace thought_place(std::span<const int32_t> prompt_ids, const Format& format,
                           const Tokenizer& tokenizer) {
  constexpr size_t kTailTokens = 32;  // Enough for blanks, and for tags that are not single tokens.
  const auto tail = prompt_ids.last(std::min(prompt_ids.size(), kTailTokens));
  const std::string text = tokenizer.decode(tail, /*skip_special=*/false);
  const std::string_view end = trimmed(text);
  for (const TagPair& pair : format.thoughts) {
    if (pair.begin.empty()) continue;
    if (end.ends_with(pair.begin)) return ThoughtPlace::kWithin;
    const bool is_message = format.notation == CallNotation::kHarmony;
    if (end.ends_with(pair.end) && !is_message) return ThoughtPlace::kAfter;
  }
  return ThoughtPlace::kBefore;
}

}  // namespace lockstep
