// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/calls/tagged_call.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr size_t kMaxHead = 512;

std::string_view unquoted(std::string_view text) {
  text = trimmed(text);
  const bool is_quoted = text.size() >= 2 && text.front() == text.back() &&
                         (text.front() == '"' || text.front() == '\'');
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

// The name in front of a tag's attributes: NAME, 'NAME' or "NAME".
std::string_view name_of(std::string_view head) {
  head = trimmed(head);
  if (head.ends_with('/')) head = trimmed(head.substr(0, head.size() - 1));
  const bool is_quoted = head.starts_with('"') || head.starts_with('\'');
  if (!is_quoted) return head.substr(0, head.find(' '));
  return head.substr(1, head.find(head[0], 1) - 1);
}

// The text of an attribute string="...", else empty.
std::string_view string_attribute(std::string_view head) {
  constexpr std::string_view kAttribute = "string=";
  const size_t found = head.rfind(kAttribute);
  return found == std::string_view::npos ? "" : unquoted(head.substr(found + kAttribute.size()));
}

bool is_name(std::string_view name) {
  return !name.empty() && name.find_first_of("\r\n\"'`(){}[]<>,;") == std::string_view::npos;
}

}  // namespace

TaggedCalls::TaggedCalls(const Format& format, const FunctionTypes* functions)
    : format_(format), functions_(functions), tags_(call_tags(format), format.suffixes) {}

CallReader::State TaggedCalls::push(char c, OutputSink* sink) {
  if (place_ == Place::kBody) return at_text(c, sink);
  return read(
      c, &tags_, [&](char next) { return at_text(next, sink); },
      [&](std::string_view tag) { return at_tag(tag, sink); });
}

CallReader::State TaggedCalls::at_text(char c, OutputSink* sink) {
  switch (place_) {
    case Place::kBetween:
      if (is_blank(c)) return State::kMore;
      text_ += c;
      return State::kText;
    case Place::kName:
    case Place::kKey:
      if (place_ == Place::kName) text_ += c;
      head_ += c;
      if (head_.size() < kMaxHead) return State::kMore;
      if (place_ == Place::kName) return State::kText;
      end_call(sink);
      return State::kMore;
    case Place::kCall:
      if (c == '{' && keys_ == 0 && !has_body_) {
        place_ = Place::kBody;
        body_ = {};
        return at_text(c, sink);
      }
      return State::kMore;  // Text between values has no meaning.
    case Place::kValue:
      add_to_value({&c, 1}, sink);
      return State::kMore;
    case Place::kBody: {
      const JsonSpan::State state = body_.push(c);
      if (state != JsonSpan::State::kBad) sink->add_arguments({&c, 1});
      if (state == JsonSpan::State::kMore) return State::kMore;
      place_ = Place::kCall;
      has_body_ = true;
      return state == JsonSpan::State::kBad ? push(c, sink) : State::kMore;
    }
    default:
      return State::kMore;
  }
}

CallReader::State TaggedCalls::at_tag(std::string_view tag, OutputSink* sink) {
  const TaggedTags& tags = format_.tagged;
  if (place_ == Place::kValue && in_value(tag, sink)) return State::kMore;
  if (place_ == Place::kName && tag != tags.call) {
    text_ += tag;
    const bool ends_name = tags.name_end.empty()
                               ? tag == tags.key || tag == tags.end || tag == tags.separator
                               : tag == tags.name_end;
    return ends_name ? end_name(tag, sink) : State::kText;
  }
  if (place_ == Place::kKey && tag == tags.key_end) {
    place_ = Place::kBeforeValue;
    if (tags.value.empty()) begin_value(sink);
  } else if (place_ == Place::kBeforeValue && tag == tags.value) {
    begin_value(sink);
  } else if (place_ == Place::kCall && tag == tags.key && !has_body_) {
    place_ = Place::kKey;
    head_.clear();
  } else if (tag == tags.call) {
    if (place_ == Place::kName) sink->add_content(take_text());
    if (place_ != Place::kBetween && place_ != Place::kName) end_call(sink);
    text_ += tag;
    place_ = Place::kName;
    head_.clear();
  } else {
    return at_end(tag, sink);
  }
  return State::kMore;
}

// Handles the end of a call or of the block, or a tag that means nothing here.
CallReader::State TaggedCalls::at_end(std::string_view tag, OutputSink* sink) {
  const bool ends_block = std::ranges::count(format_.ends, tag) != 0;
  if (ends_block || tag == format_.tagged.end) {
    if (place_ != Place::kBetween) end_call(sink);
    return ends_block || format_.ends[0].empty() ? State::kDone : State::kMore;
  }
  if (place_ != Place::kBetween) return State::kMore;
  const bool begins_block = std::ranges::count(format_.begins, tag) != 0;
  if (!after_call_ || !begins_block) text_ += tag;
  return begins_block ? State::kMore : State::kText;
}

CallReader::State TaggedCalls::end_name(std::string_view tag, OutputSink* sink) {
  name_ = format_.tagged.name_end.empty() ? trimmed(head_) : name_of(head_);
  if (!is_name(name_)) return State::kText;
  text_.clear();
  sink->begin_call(name_);
  place_ = Place::kCall;
  keys_ = 0;
  has_body_ = false;
  const bool closes_itself = tag == format_.tagged.name_end && head_.ends_with('/');
  if (tag == format_.tagged.end || closes_itself) return at_end(format_.tagged.end, sink);
  return tag == format_.tagged.key ? at_tag(tag, sink) : State::kMore;
}

// ---- Values ----

void TaggedCalls::begin_value(OutputSink* sink) {
  const std::string_view key = format_.tagged.name_end.empty() ? trimmed(head_) : name_of(head_);
  const std::string_view attribute = string_attribute(head_);
  type_ = {};
  if (functions_ != nullptr && attribute != "false") type_ = functions_->type_of(name_, key);
  streams_ = attribute == "true" || (attribute != "false" && type_.is_string());
  sink->add_arguments((keys_++ == 0 ? "{" : ", ") + json_string(key) + (streams_ ? ": \"" : ": "));
  place_ = Place::kValue;
  value_.clear();
  has_value_ = on_lines_ = line_withheld_ = false;
}

void TaggedCalls::add_to_value(std::string_view text, OutputSink* sink) {
  std::string added;
  for (const char c : text) {
    if (format_.tagged.has_lines && !has_value_ && !on_lines_ && c == '\n') {
      on_lines_ = true;
      continue;
    }
    has_value_ = true;
    if (std::exchange(line_withheld_, false)) added += '\n';
    if (format_.tagged.has_lines && c == '\n') {
      line_withheld_ = true;
    } else {
      added += c;
    }
  }
  if (!streams_) {
    value_ += added;
  } else if (!added.empty()) {
    std::string escaped;
    append_escaped(added, &escaped);
    sink->add_arguments(escaped);
  }
}

// Whether a tag is part of the value. If the format has lines, the tag of the next key or of the
// call's end also ends a value whose own end tag is missing. If such a value began on a line of its
// own, the tag must begin a line, too.
bool TaggedCalls::in_value(std::string_view tag, OutputSink* sink) {
  const TaggedTags& tags = format_.tagged;
  const bool is_next = tags.has_lines && (tag == tags.key || tag == tags.end);
  const bool ends =
      tag == tags.value_end || (is_next && (!on_lines_ || line_withheld_ || !has_value_));
  if (!ends) {
    add_to_value(tag, sink);
    return true;
  }
  end_value(sink);
  return tag == tags.value_end;
}

void TaggedCalls::end_value(OutputSink* sink) {
  sink->add_arguments(streams_ ? "\"" : type_.json_of(value_));
  place_ = Place::kCall;
}

void TaggedCalls::end_call(OutputSink* sink) {
  if (place_ == Place::kValue) end_value(sink);
  if (place_ != Place::kBody && keys_ > 0 && !has_body_) sink->add_arguments("}");
  sink->end_call();
  place_ = Place::kBetween;
  after_call_ = true;
}

void TaggedCalls::finish(bool is_cut, OutputSink* sink) {
  const std::string withheld = tags_.take_withheld();
  if (place_ == Place::kBetween || place_ == Place::kName) {
    if (!after_call_ || place_ == Place::kName) text_ += withheld;
    return;
  }
  if (is_cut) return;
  if (place_ == Place::kValue) add_to_value(withheld, sink);
  end_call(sink);
}

}  // namespace lockstep
