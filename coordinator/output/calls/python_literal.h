// SPDX-License-Identifier: Apache-2.0
// Values and calls in Python's notation.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// The JSON of a literal: strings, numbers, True, False, None (and JSON's words), lists, tuples and
// dicts. Nullopt if the text is no literal, or has no JSON form (1e999, bytes).
std::optional<std::string> json_of_python(std::string_view text);

struct PythonCall {
  std::string name;
  std::string arguments;  // A JSON object.
};
// f(k=1, l="a"): keyword arguments that are literals.
std::optional<PythonCall> parse_python_call(std::string_view text);

// Whether a name may contain this byte; names may have dots and hyphens.
bool is_of_name(char c);

// Follows the brackets and quotes of a literal or call, byte by byte.
class PythonSpan {
 public:
  // Returns the number of open brackets after this byte.
  int push(char c);
  bool in_string() const { return state_ != State::kPlain && state_ != State::kOpenedTwice; }

 private:
  enum class State {
    kPlain,        // Outside of strings.
    kOpened,       // After one quote.
    kOpenedTwice,  // After two: an empty string, or the start of three quotes.
    kSingle,
    kTriple,
  };
  int in_plain(char c);

  State state_ = State::kPlain;
  int depth_ = 0;
  char quote_ = 0;
  int closing_ = 0;  // Successive quotes that may end the string.
  bool escaped_ = false;
};

}  // namespace lockstep
