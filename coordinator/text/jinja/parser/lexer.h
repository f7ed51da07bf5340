// SPDX-License-Identifier: Apache-2.0
// Splits a template into tokens as Jinja does with trim_blocks and lstrip_blocks: removes the
// newline after a block tag, and the blanks between the start of a line and a block tag. "-"
// removes all blanks on its side, "+" keeps them. A newline at the end of the template is also
// removed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lockstep::jinja {

struct Token {
  enum class Type : uint8_t {
    kData,
    kOutputBegin,
    kOutputEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,  // With its quotes.
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Type type;
  int line;
  std::string_view text;
};

// `source` must be UTF-8 with "\n" as its only newline, and must outlive the tokens. The last token
// is kEnd. Errors name the line.
absl::StatusOr<std::vector<Token>> tokenize(std::string_view source);

// "\r\n" and "\r" become "\n", and one newline at the end is removed.
std::string normalize_newlines(const std::string& source);

// The meaning of a string token, which has its quotes.
absl::StatusOr<std::string> unescape(std::string_view quoted);

// "line 3: what": the form of all errors of a template.
absl::Status error_at(int line, std::string_view what);

}  // namespace lockstep::jinja
