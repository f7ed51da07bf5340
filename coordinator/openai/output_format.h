// SPDX-License-Identifier: Apache-2.0
// How models write tool calls and thoughts into their text: one table of each. The chat template
// shows which one a model was trained on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/text/chat_template.h"
#include "coordinator/text/tokenizer.h"

namespace lockstep::openai {

// A call is an object with "name" and "arguments" (or "parameters"). Several follow one another, in
// a list, or with ',' or ';' between them.
struct ToolFormat {
  const char* name;
  std::string_view begin;  // Before calls. Empty: the whole text is calls if it begins with '{'.
  std::string_view end;    // Behind them; may be empty.
  bool named = false;      // Also name{...} and name[ARGS]{...}.
  // A template with this text, and without the second (unless empty), is of this format.
  std::string_view sign;
  std::string_view not_sign;
};

struct ThoughtFormat {
  const char* name;
  std::string_view begin;
  std::string_view end;
  std::string_view sign;
};

std::span<const ToolFormat> tool_formats();
std::span<const ThoughtFormat> thought_formats();

// `wanted`: a format's name, "off" (null), or "auto": what the template shows, null where it shows
// none or there is no template. kInvalidArgument, after the flag's name, lists the names.
absl::StatusOr<const ToolFormat*> choose_tool_format(const std::string& wanted,
                                                     const ChatTemplate* chat_template);
absl::StatusOr<const ThoughtFormat*> choose_thought_format(const std::string& wanted,
                                                           const ChatTemplate* chat_template);

// Whether a prompt ends within a thought: some templates begin it for the model.
bool ends_in_thought(std::span<const int32_t> prompt_ids, const ThoughtFormat& format,
                     const Tokenizer& tokenizer);

}  // namespace lockstep::openai
