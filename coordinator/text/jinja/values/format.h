// SPDX-License-Identifier: Apache-2.0
// Values as text: str(), repr(), json.dumps, and Python's two kinds of formats.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "coordinator/text/jinja/values/builtin.h"

namespace lockstep::jinja {

// Append the value as print() shows it; fail if the text becomes too long. Bytes that came from the
// request stay marked.
void append_str(Runtime& runtime, const Value& value, MarkedText* text);
void append_repr(Runtime& runtime, const Value& value, MarkedText* text);

MarkedText str_of(Runtime& runtime, const Value& value);
MarkedText repr_of(Runtime& runtime, const Value& value);

std::string show_float(double value);

struct JsonStyle {
  bool ascii_only = false;
  bool sort_keys = false;
  bool lines = false;  // One line per item, indented by `indent` per level.
  std::string indent = {};
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
void append_json(Runtime& runtime, const Value& value, const JsonStyle& style, MarkedText* text);

// "%s" % value, and "{}".format(value).
Value percent_format(Runtime& runtime, const Text& format, const Value& values);
Value brace_format(Runtime& runtime, const Text& format, const Arguments& arguments);

// The format of one value: the text after the ":" in "{:>8.2f}", or the text "08.2f" of "%08.2f".
struct FormatSpec {
  std::string fill = " ";  // One character.
  char align = '\0';       // '<', '>', '^', '=' (between sign and digits); none: by the type.
  char sign = '-';         // '+', '-' or ' '.
  bool alternate = false;
  char grouping = '\0';  // ',' or '_' between thousands.
  int64_t width = 0;
  std::optional<int64_t> precision = {};
  char type = '\0';
};

FormatSpec parse_format_spec(Budget& budget, std::string_view text);

// Reads and removes digits at the beginning of the text.
std::optional<int64_t> take_digits(Budget& budget, std::string_view* text);

// Only for texts and numbers.
MarkedText apply_format(Runtime& runtime, const FormatSpec& spec, const Value& value);

}  // namespace lockstep::jinja
