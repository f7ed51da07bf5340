// SPDX-License-Identifier: Apache-2.0
#include "models/python_json.h"

namespace lockstep {

std::string without_python_numbers(std::string_view text) {
  std::string result;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string_view word;
    for (const std::string_view known : {"-Infinity", "Infinity", "NaN"}) {
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

}  // namespace lockstep
