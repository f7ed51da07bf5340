// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/calls/json_call.h"

#include <algorithm>
#include <optional>

#include "base/json.h"

namespace lockstep {
namespace {

constexpr size_t kMaxName = 256;

std::optional<std::string> unquoted(const std::string& text) {
  const absl::StatusOr<Json> json = parse_json(text, "");
  if (!json.ok() || !json->is_string()) return std::nullopt;
  return json->get<std::string>();
}

}  // namespace

// ---- One object ----

CallScanner::State CallScanner::push(char c) {
  if (place_ == Place::kInValue) return in_value(c);
  if (place_ == Place::kKey) return in_key(c);
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

CallScanner::State CallScanner::in_key(char c) {
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

CallScanner::State CallScanner::begin_value(char c) {
  place_ = Place::kInValue;
  value_.clear();
  escaped_ = false;
  is_span_ = c == '{' || c == '[';
  is_string_ = c == '"';
  span_ = {};
  const bool is_call = name_key_.empty() && name_.empty() && !key_.empty();
  if (is_call) name_ = key_;
  is_arguments_ =
      !has_arguments_ &&
      (is_call || (!name_key_.empty() && (key_ == "arguments" || key_ == "parameters")));
  if (is_span_) return in_span(c);
  value_ += c;
  return c == '}' || c == ']' || c == ',' || c == ':' ? fail() : State::kMore;
}

CallScanner::State CallScanner::in_value(char c) {
  if (is_span_) return in_span(c);
  if (is_string_) {
    value_ += c;
    if (escaped_ || c == '\\') {
      escaped_ = !escaped_;
    } else if (c == '"') {
      return end_value();
    }
    return State::kMore;
  }
  if (is_blank(c) || c == ',' || c == '}') {
    const State state = end_value();  // A number or a word ends before this byte.
    return state == State::kMore ? push(c) : state;
  }
  value_ += c;
  return c == '<' || c == '"' ? fail() : State::kMore;
}

// Text between brackets is passed on as the model wrote it.
CallScanner::State CallScanner::in_span(char c) {
  const JsonSpan::State state = span_.push(c);
  if (state == JsonSpan::State::kBad) return fail();
  if (is_arguments_) {
    arguments_ += c;
    has_arguments_ = true;
  }
  return state == JsonSpan::State::kDone ? end_value() : State::kMore;
}

CallScanner::State CallScanner::end_value() {
  place_ = Place::kCommaOrEnd;
  if (is_arguments_) {
    if (is_span_ || value_ == "null") return State::kMore;
    const std::string text = is_string_ ? unquoted(value_).value_or(value_) : value_;
    if (text.empty()) return State::kMore;
    arguments_ += text;
    has_arguments_ = true;
  } else if (!name_key_.empty() && key_ == name_key_) {
    const std::optional<std::string> name = is_string_ ? unquoted(value_) : std::nullopt;
    if (!name.has_value() || name->empty() || name->size() > kMaxName || !name_.empty()) {
      return fail();
    }
    name_ = *name;
  }
  return State::kMore;
}

// ---- Several ----

JsonCalls::JsonCalls(const Format& format)
    : format_(format), tags_(block_tags(format)), scanner_(format.json.name) {}

CallReader::State JsonCalls::push(char c, OutputSink* sink) {
  return in_call_ ? in_call(c, sink) : between(c, sink);
}

CallReader::State JsonCalls::between(char c, OutputSink* sink) {
  const auto at_text = [&](char next) {
    return in_call_ ? in_call(next, sink) : separator(next, sink);
  };
  const auto at_tag = [&](std::string_view tag) {
    if (std::ranges::count(format_.ends, tag) != 0) return State::kDone;
    if (!after_call_) text_ += tag;
    return State::kMore;
  };
  return read(c, &tags_, at_text, at_tag);
}

CallReader::State JsonCalls::separator(char c, OutputSink* sink) {
  if (c == '{') {
    in_call_ = true;
    scanner_ = CallScanner(format_.json.name);
    named_ = false;
    return in_call(c, sink);
  }
  if (c == ']' && after_call_) return format_.ends[0].empty() ? State::kDone : State::kMore;
  const bool separates = is_blank(c) || c == '[' || c == ',' || c == ';';
  if (!after_call_ || !separates) text_ += c;
  return separates ? State::kMore : State::kText;
}

CallReader::State JsonCalls::in_call(char c, OutputSink* sink) {
  if (!named_) text_ += c;
  const CallScanner::State state = scanner_.push(c);
  const bool is_certain = !format_.is_bare && state == CallScanner::State::kDone;
  if (!named_ && !scanner_.name().empty() && (scanner_.has_arguments() || is_certain)) {
    named_ = true;
    text_.clear();
    sink->begin_call(scanner_.name());
  }
  if (named_) sink->add_arguments(scanner_.take_arguments());
  if (state == CallScanner::State::kMore) return State::kMore;
  if (!named_) return State::kText;
  sink->end_call();
  in_call_ = false;
  after_call_ = true;
  if (state == CallScanner::State::kFailed) return between(c, sink);  // c belongs to what follows.
  return State::kMore;
}

void JsonCalls::finish(bool, OutputSink*) {
  if (!after_call_) text_ += tags_.take_withheld();
}

}  // namespace lockstep
