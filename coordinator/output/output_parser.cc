// SPDX-License-Identifier: Apache-2.0
// A state machine over bytes, so that the result does not depend on the pieces in which the text
// arrives.
#include "coordinator/output/output_parser.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "coordinator/output/calls/harmony.h"
#include "coordinator/output/calls/json_text.h"

namespace lockstep {
namespace {

bool has(const Tags& tags, std::string_view tag) { return std::ranges::count(tags, tag) != 0; }

// The pair that begins with this tag; null if there is none.
const TagPair* begun_by(const TagPairs& pairs, std::string_view tag) {
  const auto* found = std::ranges::find(pairs, tag, &TagPair::begin);
  return found == pairs.end() ? nullptr : found;
}

std::vector<std::string_view> begins_of(const Format& format) {
  std::vector<std::string_view> tags;
  for (const TagPair& pair : format.thoughts) tags.push_back(pair.begin);
  return tags;
}

}  // namespace

OutputParser::OutputParser(const OutputOptions& options)
    : options_(options), sink_(options.one_call), tags_({}) {
  LOCKSTEP_CHECK(options.thoughts != nullptr || options.place == ThoughtPlace::kBefore);
  const Format* format = options.tools != nullptr ? options.tools : options.thoughts;
  if (format != nullptr && format->notation == CallNotation::kHarmony) {
    const Harmony::Options parts = {.thoughts = options.thoughts != nullptr,
                                    .calls = options.tools != nullptr,
                                    .in_thought = options.place == ThoughtPlace::kWithin};
    calls_ = std::make_unique<Harmony>(*format, parts, &sink_);
    place_ = Place::kCalls;
  } else if (options.thoughts == nullptr || options.place == ThoughtPlace::kAfter) {
    begin_content();
  } else if (options.place == ThoughtPlace::kWithin) {
    begin_thought({});
  } else {
    tags_ = TagFinder(begins_of(*options.thoughts), options.thoughts->suffixes);
  }
}

OutputDelta OutputParser::push(std::string_view text) {
  if (options_.thoughts == nullptr && options_.tools == nullptr) {
    return {.content = std::string(text)};
  }
  for (const char c : text) push(c);
  return sink_.take();
}

void OutputParser::push(char c) {
  switch (place_) {
    case Place::kStart:
      return at_start(c);
    case Place::kThought:
      return in_thought(c);
    case Place::kContent:
      return in_content(c);
    case Place::kCalls:
      return in_calls(c);
  }
}

OutputDelta OutputParser::finish(bool is_cut) {
  if (place_ == Place::kThought) {
    if (in_call_of_thought_) {
      const std::string text = std::exchange(call_of_thought_, {}) + tags_.take_withheld();
      end_thought();
      for (const char c : text) push(c);
    } else {
      sink_.add_thought(tags_.take_withheld());
    }
  }
  if (place_ == Place::kCalls) {
    calls_->finish(is_cut, &sink_);
    if (is_cut && has_tag_) {
      sink_.drop_pending_blanks();
    } else {
      sink_.add_content(calls_->take_text());
    }
  } else if (place_ != Place::kThought) {
    sink_.add_content(tags_.take_withheld());
  }
  sink_.finish();
  return sink_.take();
}

// ---- Thoughts ----

void OutputParser::at_start(char c) {
  std::string text;
  const auto tag = tags_.push(c, &text);
  if (tag.has_value()) return begin_thought(*tag);
  if (trimmed(text).empty()) return sink_.add_content(text);
  text += tags_.take_withheld();
  begin_content();
  for (const char next : text) push(next);
}

void OutputParser::begin_thought(std::string_view begin) {
  const Format& format = *options_.thoughts;
  const TagPair* pair = begin.empty() ? nullptr : begun_by(format.thoughts, begin);
  thought_end_ = pair == nullptr ? std::string_view() : pair->end;
  place_ = Place::kThought;
  std::vector<std::string_view> tags = begins_of(format);
  for (const TagPair& any : format.thoughts) {
    if (thought_end_.empty() || any.end == thought_end_) tags.push_back(any.end);
  }
  if (options_.tools != nullptr && options_.tools->call_ends_thought) {
    tags.insert(tags.end(), options_.tools->begins.begin(), options_.tools->begins.end());
  }
  tags_ = TagFinder(std::move(tags), format.suffixes);
  sink_.begin_thought();
}

void OutputParser::in_thought(char c) {
  std::string text;
  const auto tag = tags_.push(c, &text);
  const bool ends =
      tag.has_value() && std::ranges::count(options_.thoughts->thoughts, *tag, &TagPair::end) != 0;
  const bool is_repeated = tag.has_value() && !ends && !sink_.has_thought() &&
                           begun_by(options_.thoughts->thoughts, *tag) != nullptr;
  if (tag.has_value() && !ends && !is_repeated) {
    in_call_of_thought_ |= options_.tools != nullptr && has(options_.tools->begins, *tag);
    text += *tag;
  }
  if (in_call_of_thought_) {
    call_of_thought_ += text;
  } else {
    sink_.add_thought(text);
  }
  if (!ends) return;
  sink_.add_thought(std::exchange(call_of_thought_, {}));
  end_thought();
}

void OutputParser::end_thought() {
  in_call_of_thought_ = false;
  sink_.end_thought();
  begin_content();
}

// ---- Content ----

void OutputParser::begin_content() {
  place_ = Place::kContent;
  is_fresh_ = sink_.calls() == 0;
  std::vector<std::string_view> tags;
  bool suffixes = false;
  for (const Format* format : {options_.thoughts, options_.tools}) {
    if (format == nullptr) continue;
    suffixes |= format->suffixes;
    tags.insert(tags.end(), format->hidden.begin(), format->hidden.end());
    for (const TagPair& wrap : format->wraps) tags.insert(tags.end(), {wrap.begin, wrap.end});
  }
  if (options_.thoughts != nullptr && options_.thoughts->thinks_again) {
    std::ranges::copy(begins_of(*options_.thoughts), std::back_inserter(tags));
  }
  if (options_.tools != nullptr) {
    const Format& tools = *options_.tools;
    tags.insert(tags.end(), tools.begins.begin(), tools.begins.end());
    tags.insert(tags.end(), tools.ends.begin(), tools.ends.end());
  }
  tags_ = TagFinder(std::move(tags), suffixes);
}

void OutputParser::in_content(char c) {
  std::string text;
  const auto tag = tags_.push(c, &text);
  for (size_t i = 0; i < text.size(); ++i) {
    content_byte(text[i]);
    if (place_ == Place::kContent) continue;
    const std::string rest =
        text.substr(i + 1) + std::string(tag.value_or("")) + tags_.take_withheld();
    for (const char next : rest) push(next);
    return;
  }
  if (tag.has_value()) content_tag(*tag);
}

void OutputParser::content_byte(char c) {
  const bool may_be_call =
      is_fresh_ && options_.tools != nullptr && options_.tools->is_bare && (c == '{' || c == '[');
  if (may_be_call) {
    begin_calls({});
    return push(c);
  }
  is_fresh_ &= is_blank(c);
  sink_.add_content({&c, 1});
}

void OutputParser::content_tag(std::string_view tag) {
  if (const Format* tools = options_.tools; tools != nullptr) {
    if (has(tools->begins, tag) && (is_fresh_ || !tools->at_start)) return begin_calls(tag);
    if (has(tools->ends, tag) && sink_.calls() > 0) return;  // The tag's block has already ended.
  }
  for (const Format* format : {options_.thoughts, options_.tools}) {
    if (format == nullptr) continue;
    if (const TagPair* wrap = begun_by(format->wraps, tag); wrap != nullptr && is_fresh_) {
      wrap_end_ = wrap->end;
      return;
    }
    if (tag == wrap_end_) {
      wrap_end_ = {};
      return;
    }
    const bool begins_thought = format == options_.thoughts && format->thinks_again &&
                                begun_by(format->thoughts, tag) != nullptr;
    if (begins_thought) return begin_thought(tag);
    if (has(format->hidden, tag)) return;
  }
  is_fresh_ = false;
  sink_.add_content(tag);
}

// ---- Calls ----

void OutputParser::begin_calls(std::string_view tag) {
  calls_ = make_call_reader(*options_.tools, options_.functions.get());
  place_ = Place::kCalls;
  has_tag_ = !tag.empty();
  for (const char c : tag) push(c);
}

void OutputParser::in_calls(char c) {
  const CallReader::State state = calls_->push(c, &sink_);
  if (state == CallReader::State::kMore) return;
  sink_.add_content(calls_->take_text());
  place_ = Place::kContent;
  is_fresh_ = false;
  calls_.reset();
}

}  // namespace lockstep
