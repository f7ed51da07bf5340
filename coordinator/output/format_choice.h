// SPDX-License-Identifier: Apache-2.0
// Which formats of the table a server reads: by name, or by what the model's chat template shows.
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
  bool tools_as_text = false;  // By --tool-parser none: calls stay content.
  std::string reason;          // Why there is no format for calls; empty where there is one.

  // kFailedPrecondition where calls can be neither read nor handed on as text.
  absl::Status check_tools() const;
  // "tool parser hermes, reasoning parser think": for a log. Without a format the reason is there.
  std::string line() const;
};

// The name of a format as it is shown; "none".
std::string name_of(const Format* format);

// Either: a format's name, "none" ("off" is the same), or "auto": what the template shows. A
// template that shows several formats, or none, has none. `chat_template` may be null.
// kInvalidArgument, after the flag's name, lists the names.
absl::StatusOr<FormatChoice> choose_formats(const std::string& tool_parser,
                                            const std::string& reasoning_parser,
                                            const ChatTemplate* chat_template);

std::vector<int32_t> special_ids(const Tokenizer& tokenizer);
// Those of the special tokens that are, or are a part of, one of the tags: parsers have to see
// them.
std::vector<int32_t> tag_ids(std::span<const std::string_view> tags,
                             std::span<const int32_t> special, const Tokenizer& tokenizer);

// The place at which a prompt ends.
ThoughtPlace thought_place(std::span<const int32_t> prompt_ids, const Format& format,
                           const Tokenizer& tokenizer);

}  // namespace lockstep
