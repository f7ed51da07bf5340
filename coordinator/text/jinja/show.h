// SPDX-License-Identifier: Apache-2.0
// Values as text: Python's str() and repr(), and JSON.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/text/jinja/runtime.h"

namespace lockstep::jinja {

// Appends the value as print shows it; an error where the text becomes too long. Bytes that came
// from the request stay marked.
absl::Status append_str(Runtime& runtime, const Value& value, MarkedText* text);
absl::Status append_repr(Runtime& runtime, const Value& value, MarkedText* text);

absl::StatusOr<MarkedText> str_of(Runtime& runtime, const Value& value);

std::string show_float(double value);

struct JsonStyle {
  bool ascii_only = false;
  bool sort_keys = false;
  bool lines = false;  // A line per item, further in by `indent` per level.
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
absl::Status append_json(Runtime& runtime, const Value& value, const JsonStyle& style,
                         MarkedText* text);

}  // namespace lockstep::jinja
