// SPDX-License-Identifier: Apache-2.0
// JSON is written while the call arrives. Unexpected bytes are dropped, since nothing already sent
// can be withdrawn.
#include "coordinator/output/calls/gemma_call.h"

#include <algorithm>

#include "base/json.h"
#include "coordinator/output/calls/json_text.h"
#include "coordinator/output/calls/python_literal.h"

namespace lockstep {
namespace {

constexpr std::string_view kCall = "call:";
constexpr size_t kMaxHead = 256;

// Numbers, true, false and null stay as they are. Other words become strings.
std::string json_of_bare(std::string_view word) {
  const absl::StatusOr<Json> json = parse_json(word, "");
  if (json.ok() && json->is_primitive()) return std::string(word);
  return word == "None" ? "null" : json_string(word);
}

}  // namespace

GemmaCalls::GemmaCalls(const Format& format)
    : format_(format), tags_({format.begins[0], format.ends[0], format.quote}) {}

CallReader::State GemmaCalls::push(char c, OutputSink* sink) {
  return read(
      c, &tags_, [&](char next) { return at_text(next, sink); },
      [&](std::string_view tag) { return at_tag(tag, sink); });
}

CallReader::State GemmaCalls::at_text(char c, OutputSink* sink) {
  switch (place_) {
    case Place::kBetween:
      if (is_blank(c)) return State::kMore;
      text_ += c;
      return State::kText;
    case Place::kHead:
      return in_head(c, sink);
    case Place::kString:
      if (is_key_) {
        bare_ += c;
      } else {
        std::string escaped;
        append_escaped({&c, 1}, &escaped);
        sink->add_arguments(escaped);
      }
      return State::kMore;
    default:
      in_values(c, sink);
      return State::kMore;
  }
}

CallReader::State GemmaCalls::at_tag(std::string_view tag, OutputSink* sink) {
  if (place_ == Place::kString) {
    if (tag == format_.quote) {
      end_string(sink);
    } else {
      for (const char c : tag) at_text(c, sink);
    }
    return State::kMore;
  }
  if (tag == format_.quote && (place_ == Place::kKey || place_ == Place::kValue)) {
    begin_string(sink);
    return State::kMore;
  }
  while (!brackets_.empty()) close(sink);
  if (tag == format_.begins[0]) {
    text_ += tag;
    place_ = Place::kHead;
    head_.clear();
    return State::kMore;
  }
  if (place_ == Place::kBetween && after_call_) return State::kDone;
  text_ += tag;
  return State::kText;
}

CallReader::State GemmaCalls::in_head(char c, OutputSink* sink) {
  text_ += c;
  if (c != '{') {
    head_ += c;
    const std::string_view head = trimmed(head_);
    const bool may_be_call = kCall.starts_with(head) || head.starts_with(kCall);
    return may_be_call && head_.size() <= kMaxHead ? State::kMore : State::kText;
  }
  const std::string_view head = trimmed(head_);
  if (!head.starts_with(kCall)) return State::kText;
  const std::string_view name = trimmed(head.substr(kCall.size()));
  if (name.empty() || !std::ranges::all_of(name, is_of_name)) return State::kText;
  text_.clear();
  sink->begin_call(name);
  open('{', sink);
  return State::kMore;
}

void GemmaCalls::in_values(char c, OutputSink* sink) {
  if (place_ == Place::kKey) {
    if (c == ':') {
      end_key(sink);
    } else if (c == '}') {
      close(sink);
    } else if (c != ',') {
      bare_ += c;
    }
    return;
  }
  if ((c == '{' || c == '[') && trimmed(bare_).empty() && !has_value_) {
    separate(sink);
    open(c, sink);
  } else if (c == '}' || c == ']') {
    close(sink);
  } else if (c == ',') {
    end_bare(sink);
    has_value_ = false;
    if (brackets_.back() == '{') place_ = Place::kKey;
  } else {
    bare_ += c;
  }
}

// ---- Keys and values ----

void GemmaCalls::begin_string(OutputSink* sink) {
  is_key_ = place_ == Place::kKey;
  place_ = Place::kString;
  bare_.clear();
  if (is_key_) return;
  separate(sink);
  sink->add_arguments("\"");
}

void GemmaCalls::end_string(OutputSink* sink) {
  place_ = is_key_ ? Place::kKey : Place::kValue;
  if (is_key_) return;
  sink->add_arguments("\"");
  has_value_ = true;
}

void GemmaCalls::end_key(OutputSink* sink) {
  sink->add_arguments((filled_.back() ? ", " : "") + json_string(trimmed(bare_)) + ": ");
  filled_.back() = true;
  bare_.clear();
  has_value_ = false;
  place_ = Place::kValue;
}

void GemmaCalls::end_bare(OutputSink* sink) {
  const std::string word(trimmed(std::exchange(bare_, {})));
  if (has_value_ || (word.empty() && brackets_.back() == '[')) return;
  separate(sink);
  sink->add_arguments(word.empty() ? "null" : json_of_bare(word));
  has_value_ = true;
}

void GemmaCalls::open(char bracket, OutputSink* sink) {
  sink->add_arguments({&bracket, 1});
  brackets_.push_back(bracket);
  filled_.push_back(false);
  bare_.clear();
  has_value_ = false;
  place_ = bracket == '{' ? Place::kKey : Place::kValue;
}

void GemmaCalls::close(OutputSink* sink) {
  if (place_ == Place::kString) end_string(sink);
  if (place_ == Place::kValue) end_bare(sink);
  sink->add_arguments(brackets_.back() == '{' ? "}" : "]");
  brackets_.pop_back();
  filled_.pop_back();
  bare_.clear();
  has_value_ = true;
  place_ = Place::kValue;
  if (!brackets_.empty()) return;
  sink->end_call();
  place_ = Place::kBetween;
  after_call_ = true;
}

// Writes the comma before a value of a list.
void GemmaCalls::separate(OutputSink* sink) {
  if (brackets_.back() != '[') return;
  if (filled_.back()) sink->add_arguments(", ");
  filled_.back() = true;
}

void GemmaCalls::finish(bool is_cut, OutputSink* sink) {
  if (brackets_.empty()) {
    if (!after_call_ || place_ == Place::kHead) text_ += tags_.take_withheld();
    return;
  }
  if (is_cut) return;
  for (const char c : tags_.take_withheld()) at_text(c, sink);
  while (!brackets_.empty()) close(sink);
}

}  // namespace lockstep
