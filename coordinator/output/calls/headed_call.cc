// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/calls/headed_call.h"

#include <algorithm>
#include <cctype>

namespace lockstep {
namespace {

constexpr size_t kMaxHead = 256;

// functions.NAME:NUMBER -> NAME. A number alone is not a name.
std::string_view name_of_id(std::string_view id) {
  constexpr std::string_view kPrefix = "functions.";
  if (id.starts_with(kPrefix)) id.remove_prefix(kPrefix.size());
  const size_t colon = id.rfind(':');
  if (colon != std::string_view::npos) return id.substr(0, colon);
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  return std::ranges::all_of(id, is_digit) ? "" : id;
}

// DeepSeek V3 writes the word "function" as the head. The name and a code fence are between the tag
// of arguments and the object.
std::string_view name_before_fence(std::string_view tail) {
  return trimmed(tail.substr(0, tail.find_first_of("`\n")));
}

bool is_name(std::string_view name) {
  return !name.empty() && name.find_first_of(" \t\r\n\"'`(){}[]<>,;") == std::string_view::npos;
}

}  // namespace

HeadedCalls::HeadedCalls(const Format& format)
    : format_(format), tags_([&] {
        std::vector<std::string_view> all = block_tags(format);
        const HeadedTags& tags = format.headed;
        all.insert(all.end(), {tags.call, tags.id, tags.arguments, tags.end});
        return all;
      }()) {}

CallReader::State HeadedCalls::push(char c, OutputSink* sink) {
  if (place_ == Place::kBody) return in_body(c, sink);
  const auto at_text = [&](char next) {
    return place_ == Place::kBody ? in_body(next, sink) : text_byte(next, sink);
  };
  return read(c, &tags_, at_text, [&](std::string_view tag) { return at_tag(tag, sink); });
}

CallReader::State HeadedCalls::text_byte(char c, OutputSink* sink) {
  if (place_ == Place::kBetween) {
    if (is_blank(c) || (after_call_ && c == '`')) return State::kMore;
    text_ += c;
    return State::kText;
  }
  const bool needs_tag = format_.headed.id.empty();
  if (c == '{' && (place_ == Place::kBeforeBody || !needs_tag)) {
    if (begin_call(sink)) return in_body(c, sink);
    text_ += c;
    return State::kText;
  }
  text_ += c;
  std::string& part = place_ == Place::kBeforeBody ? tail_ : head_;
  if (place_ != Place::kId) part += c;
  const bool is_too_long = text_.size() > 2 * kMaxHead;
  // If a brace may follow the head without a tag, the head must look like a name from its first
  // byte on.
  const bool is_prose =
      !needs_tag && place_ == Place::kHead && !is_name(trimmed(head_)) && !trimmed(head_).empty();
  return is_too_long || is_prose ? State::kText : State::kMore;
}

CallReader::State HeadedCalls::at_tag(std::string_view tag, OutputSink* sink) {
  const HeadedTags& tags = format_.headed;
  if (tag == tags.call) {
    place_ = Place::kHead;
    head_.clear();
    tail_.clear();
  } else if (tag == tags.arguments && (place_ == Place::kHead || place_ == Place::kId)) {
    place_ = Place::kBeforeBody;
  } else if (tag == tags.id && place_ == Place::kHead) {
    place_ = Place::kId;
  } else if (tag == tags.end || std::ranges::count(format_.ends, tag) != 0) {
    if (place_ == Place::kBeforeBody && begin_call(sink)) end_call(sink);
    if (tag != tags.end) return State::kDone;
  }
  if (!after_call_ || place_ != Place::kBetween) text_ += tag;
  return State::kMore;
}

// False if there is no name.
bool HeadedCalls::begin_call(OutputSink* sink) {
  const std::string_view head = trimmed(head_);
  const std::string_view later = name_before_fence(trimmed(tail_));
  const std::string_view name = format_.headed.is_id ? name_of_id(head)
                                : later.empty()      ? head
                                                     : later;
  if (!is_name(name)) return false;
  sink->begin_call(name, format_.headed.is_id ? head : "");
  text_.clear();
  place_ = Place::kBody;
  body_ = {};
  return true;
}

void HeadedCalls::end_call(OutputSink* sink) {
  sink->end_call();
  place_ = Place::kBetween;
  after_call_ = true;
}

CallReader::State HeadedCalls::in_body(char c, OutputSink* sink) {
  const JsonSpan::State state = body_.push(c);
  if (state != JsonSpan::State::kBad) sink->add_arguments({&c, 1});
  if (state == JsonSpan::State::kMore) return State::kMore;
  end_call(sink);
  return state == JsonSpan::State::kBad ? push(c, sink) : State::kMore;
}

void HeadedCalls::finish(bool, OutputSink*) {
  if (place_ != Place::kBody && !(after_call_ && place_ == Place::kBetween)) {
    text_ += tags_.take_withheld();
  }
}

}  // namespace lockstep
