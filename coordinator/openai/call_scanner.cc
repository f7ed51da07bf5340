// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/call_scanner.h"

#include <cstddef>
#include <optional>

#include "base/json.h"

namespace lockstep::openai {
namespace {

constexpr size_t kMaxName = 256;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::optional<std::string> unquoted(const std::string& text) {
  const absl::StatusOr<Json> json = parse_json(text, "");
  if (!json.ok() || !json->is_string()) return std::nullopt;
  return json->get<std::string>();
}

}  // namespace

CallScanner::State CallScanner::push(char c) {
  if (place_ == Place::kInValue) return in_value(c);
  if (place_ == Place::kKey) {
    key_ += c;
    if (escaped_ || c == '\\') {
      escaped_ = !escaped_;
    } else if (c == '"') {
      const std::optional<std::string> key = unquoted(key_);
      if (!key.has_value()) return fail();
      key_ = *key;
      place_ = Place::kColon;
    }
    return key_.size() > kMaxName ? fail() : State::kMore;
  }
  if (is_blank(c)) return State::kMore;
  switch (place_) {
    case Place::kStart:
      place_ = Place::kKeyOrEnd;
      return c == '{' ? State::kMore : fail();
    case Place::kKeyOrEnd:
      key_ = c;
      place_ = Place::kKey;
      return c == '"' ? State::kMore : fail();
    case Place::kColon:
      place_ = Place::kValue;
      return c == ':' ? State::kMore : fail();
    case Place::kValue:
      return begin_value(c);
    default:  // kCommaOrEnd
      if (c == '}') return name_.empty() ? fail() : State::kDone;
      place_ = Place::kKeyOrEnd;
      return c == ',' ? State::kMore : fail();
  }
}

CallScanner::State CallScanner::begin_value(char c) {
  place_ = Place::kInValue;
  value_.clear();
  depth_ = 0;
  in_string_ = escaped_ = false;
  if (c == '}' || c == ']' || c == ',' || c == ':') return fail();
  return in_value(c);
}

// Brackets and braces are only counted: what the model wrote between them is handed on as it is.
CallScanner::State CallScanner::in_value(char c) {
  const bool is_scalar = depth_ == 0 && !in_string_;
  if (is_scalar && !value_.empty() && (is_blank(c) || c == ',' || c == '}')) {
    const State state = end_value();  // A number or a word ends before this.
    return state == State::kMore && !is_blank(c) ? push(c) : state;
  }
  const bool nested = depth_ > 0 || (!in_string_ && (c == '{' || c == '['));
  if (nested && is_arguments()) {
    arguments_ += c;
    has_arguments_ = true;
  } else if (!nested) {
    value_ += c;
  }
  if (in_string_) {
    if (escaped_ || c == '\\') {
      escaped_ = !escaped_;
    } else if (c == '"') {
      in_string_ = false;
      if (depth_ == 0) return end_value();
    }
  } else if (c == '"') {
    in_string_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if ((c == '}' || c == ']') && depth_ > 0 && --depth_ == 0) {
    return end_value();
  }
  return State::kMore;
}

CallScanner::State CallScanner::end_value() {
  place_ = Place::kCommaOrEnd;
  if (key_ == "name") {
    const std::optional<std::string> name = unquoted(value_);
    if (!name.has_value() || name->empty() || name->size() > kMaxName || !name_.empty()) {
      return fail();
    }
    name_ = *name;
  } else if (is_arguments() && !value_.empty() && value_ != "null") {
    arguments_ += value_.front() == '"' ? unquoted(value_).value_or(value_) : value_;
    has_arguments_ = true;
  }
  return State::kMore;
}

}  // namespace lockstep::openai
