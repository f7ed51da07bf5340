// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/calls/harmony.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr size_t kMaxHeader = 1024;
constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>", kStart = "<|start|>",
                           kConstrain = "<|constrain|>",
                           kRecipient = "to=", kFunctions = "functions.";

// The word after a mark in a header; empty if there is none.
std::string_view word_after(std::string_view header, std::string_view mark) {
  const size_t found = header.find(mark);
  if (found == std::string_view::npos) return "";
  header.remove_prefix(found + mark.size());
  while (!header.empty() && is_blank(header.front())) header.remove_prefix(1);
  return header.substr(0, header.find_first_of(" \t\r\n<"));
}

}  // namespace

Harmony::Harmony(const Format& format, const Options& options, OutputSink* sink)
    : options_(options), tags_(call_tags(format)) {
  if (!options.in_thought) return;
  header_ = "<|channel|>analysis";
  begin_body(sink);
}

CallReader::State Harmony::push(char c, OutputSink* sink) {
  // A tag inside a string of the arguments belongs to the string.
  if (place_ == Place::kCall && is_object_ && !is_over_) {
    in_call(c, sink);
    return State::kMore;
  }
  std::string text;
  const auto tag = tags_.push(c, &text);
  for (const char next : text) add_text(next, sink);
  if (tag.has_value()) at_tag(*tag, sink);
  return State::kMore;
}

void Harmony::add_text(char c, OutputSink* sink) {
  switch (place_) {
    case Place::kOpen:
      if (is_blank(c) && header_.empty()) return;
      header_ += c;
      if (header_ == kRecipient) place_ = Place::kHeader;
      if (kRecipient.starts_with(header_)) return;
      place_ = Place::kContent;  // The text has no header.
      sink->drop_pending_blanks();
      return sink->add_content(std::exchange(header_, {}));
    case Place::kHeader:
      if (header_.size() < kMaxHeader) header_ += c;
      return;
    case Place::kThought:
      return sink->add_thought({&c, 1});
    case Place::kContent:
      return sink->add_content({&c, 1});
    case Place::kCall:
      return in_call(c, sink);
  }
}

void Harmony::in_call(char c, OutputSink* sink) {
  if (is_over_) return;
  if (!is_object_) {
    if (is_blank(c)) return;
    is_object_ = c == '{';
    is_over_ = !is_object_;  // Words after the header are not arguments.
    if (is_over_) return;
  }
  const JsonSpan::State state = arguments_.push(c);
  is_over_ = state != JsonSpan::State::kMore;
  if (state != JsonSpan::State::kBad) return sink->add_arguments({&c, 1});
  push(c, sink);
}

void Harmony::at_tag(std::string_view tag, OutputSink* sink) {
  const bool is_header = place_ == Place::kOpen || place_ == Place::kHeader;
  if (tag == kMessage) {
    if (!is_header) return;
    return begin_body(sink);
  }
  if (!is_header) end_body(sink);
  if (tag == kStart) header_.clear();
  if (tag == kStart || tag == kChannel || tag == kConstrain) {
    if (header_.size() < kMaxHeader) header_ += tag;
    place_ = Place::kHeader;
    return;
  }
  header_.clear();  // The message has ended.
  place_ = Place::kOpen;
}

void Harmony::begin_body(OutputSink* sink) {
  const std::string header = std::exchange(header_, {});
  std::string_view recipient = word_after(header, kRecipient);
  const bool is_call =
      options_.calls && recipient.starts_with(kFunctions) && recipient.size() > kFunctions.size();
  const bool is_thought = word_after(header, kChannel) == "analysis";
  // A message to one of the model's own tools is no answer to the client: it counts as a thought.
  const bool is_hidden = options_.calls && !recipient.empty() && !is_call;
  if (is_call) {
    recipient.remove_prefix(kFunctions.size());
    place_ = Place::kCall;
    arguments_ = {};
    is_object_ = is_over_ = false;
    sink->begin_call(recipient);
  } else if (options_.thoughts && (is_thought || is_hidden)) {
    place_ = Place::kThought;
    sink->begin_thought();
  } else {
    place_ = Place::kContent;
    sink->drop_pending_blanks();
  }
}

void Harmony::end_body(OutputSink* sink) {
  if (place_ == Place::kThought) sink->end_thought();
  if (place_ == Place::kCall) sink->end_call();
}

void Harmony::finish(bool is_cut, OutputSink* sink) {
  const std::string withheld = tags_.take_withheld();
  if (place_ == Place::kThought || place_ == Place::kContent) {
    for (const char c : withheld) add_text(c, sink);
  }
  if (place_ == Place::kOpen) text_ = header_ + withheld;
  if (place_ == Place::kCall && !is_cut) sink->end_call();
}

}  // namespace lockstep
