// SPDX-License-Identifier: Apache-2.0
// Chooses the formats that a server reads: by name, or by the model's chat template.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/output/format.h"
#include "coordinator/output/output_parser.h"
#include "coordinator/text/template/chat_template.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace lockstep {

struct FormatChoice {
  const Format* tools = nullptr;
  const Format* thoughts = nullptr;
  bool tools_as_text = false;  // Set by --tool-parser none: calls stay content.
  std::string reason;          // Why there is no format for calls; empty if there is one.

  // kFailedPrecondition if calls can neither be read nor passed on as text.
  absl::Status check_tools() const;
  // "tool parser hermes, reasoning parser think", for the log; with the reason if there is no
  // format.
  std::string line() const;
};

// The format's name as it is shown; "none" for null.
std::string name_of(const Format* format);

// Each parser is a format's name, "none" (or "off"), or "auto": the format whose marks are in the
// chat template. "auto" chooses none if the template has marks of no format, or marks of several
// formats of calls. `chat_template` may be null. kInvalidArgument begins with the flag's name and
// lists the formats' names.
absl::StatusOr<FormatChoice> choose_formats(const std::string& tool_parser,
                                            const std::string& reasoning_parser,
                                            const ChatTemplate* chat_template);

// The ids of all special tokens, ascending.
std::vector<int32_t> special_ids(const Tokenizer& tokenizer);
// The special tokens that are one of the tags, or a part of one: parsers must see them.
std::vector<int32_t> tag_ids(std::span<const std::string_view> tags,
                             std::span<const int32_t> special, const Tokenizer& tokenizer);

// Whether the prompt ends before, within or after a thought.
ThoughtPlace thought_place(std::span<const int32_t> prompt_ids, const Format& format,
                           const Tokenizer& tokenizer);

}  // namespace lockstep
