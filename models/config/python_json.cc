// SPDX-License-Identifier: Apache-2.0
#include "models/config/python_json.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep {
namespace {

constexpr std::string_view kNumbers[] = {"-Infinity", "Infinity", "NaN"};

// {"__float__": "Infinity"} becomes "Infinity". JsonLimits bounds the depth of the recursion.
void unwrap_floats(Json& json) {
  if (json.is_object() && json.size() == 1 && json.begin().key() == "__float__") {
    Json number = json.begin().value();
    if (std::ranges::find(kNumbers, number) != std::end(kNumbers)) json = std::move(number);
  }
  if (!json.is_structured()) return;
  for (Json& inner : json) unwrap_floats(inner);
}

}  // namespace

std::string without_python_numbers(std::string_view text) {
  std::string result;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string_view word;
    for (const std::string_view known : kNumbers) {
      if (!in_string && text.substr(i).starts_with(known)) word = known;
    }
    if (!word.empty()) {
      result.append("\"").append(word).append("\"");
      i += word.size() - 1;
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    result += text[i];
    if (in_string && text[i] == '\\' && i + 1 < text.size()) result += text[++i];
  }
  return result;
}

absl::StatusOr<Json> parse_python_json(std::string_view text, std::string_view what,
                                       const JsonLimits& limits) {
  ASSIGN_OR_RETURN(Json json, parse_json(without_python_numbers(text), what, limits));
  unwrap_floats(json);
  return json;
}

}  // namespace lockstep
