// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/calls/json_text.h"

#include <fmt/format.h>

namespace lockstep {
namespace {

bool is_of_json(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
         is_blank(c) || std::string_view("+-.,:").find(c) != std::string_view::npos;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

void append_escaped(std::string_view text, std::string* json) {
  constexpr std::string_view kPlain = "\"\\\n\t\r\b\f", kLetters = "\"\\ntrbf";
  for (const char c : text) {
    if (const size_t found = kPlain.find(c); found != std::string_view::npos) {
      *json += '\\';
      *json += kLetters[found];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      *json += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      *json += c;
    }
  }
}

std::string json_string(std::string_view text) {
  std::string json = "\"";
  append_escaped(text, &json);
  return json + '"';
}

JsonSpan::State JsonSpan::push(char c) {
  if (in_string_) {
    if (escaped_ || c == '\\') {
      escaped_ = !escaped_;
    } else if (c == '"') {
      in_string_ = false;
    }
    return State::kMore;
  }
  if (c == '"') {
    in_string_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if (c == '}' || c == ']') {
    return --depth_ == 0 ? State::kDone : State::kMore;
  } else if (!is_of_json(c)) {
    return State::kBad;
  }
  return State::kMore;
}

}  // namespace lockstep
