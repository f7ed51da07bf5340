// SPDX-License-Identifier: Apache-2.0
// JSON as text: finds the end of a value, and writes strings.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
std::string_view trimmed(std::string_view text);

// Appends a string's content; only quotes, backslashes and control characters are escaped.
void append_escaped(std::string_view text, std::string* json);
std::string json_string(std::string_view text);

// Finds the end of an object or a list. The text between the brackets is not checked, except for
// bytes that JSON allows only in strings.
class JsonSpan {
 public:
  enum class State { kMore, kDone, kBad };

  // Called from the opening bracket on; not after kDone or kBad.
  State push(char c);

 private:
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace lockstep
