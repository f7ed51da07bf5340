// SPDX-License-Identifier: Apache-2.0
// JSON as text: where a value ends, and how a string is written.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
std::string_view trimmed(std::string_view text);

// Appends a string's content, escaped: quotes, backslashes and control characters alone.
void append_escaped(std::string_view text, std::string* json);
std::string json_string(std::string_view text);

// Finds the end of an object or a list. What is between the brackets is not checked, but for bytes
// that JSON cannot have outside of strings.
class JsonSpan {
 public:
  enum class State { kMore, kDone, kBad };

  // From the opening bracket on; neither after kDone nor after kBad.
  State push(char c);

 private:
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace lockstep
