// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/calls/python_call.h"

#include <algorithm>
#include <cctype>

#include "coordinator/output/calls/json_text.h"

namespace lockstep {

PythonCalls::PythonCalls(const Format& format) : format_(format), tags_(block_tags(format)) {}

CallReader::State PythonCalls::push(char c, OutputSink* sink) {
  if (place_ != Place::kBetween) return in_call(c, sink);
  const auto at_text = [&](char next) {
    return place_ == Place::kBetween ? between(next) : in_call(next, sink);
  };
  const auto at_tag = [&](std::string_view tag) {
    if (std::ranges::count(format_.ends, tag) != 0) return State::kDone;
    if (!after_call_) text_ += tag;
    return State::kMore;
  };
  return read(c, &tags_, at_text, at_tag);
}

CallReader::State PythonCalls::between(char c) {
  const bool begins = std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
  const bool separates = is_blank(c) || c == '[' || c == ',' || (c == ']' && after_call_);
  if (begins) {
    place_ = Place::kName;
    call_ = c;
    span_ = {};
  }
  if (!after_call_ || begins || !separates) text_ += c;
  return begins || separates ? State::kMore : State::kText;
}

// Returns kText as soon as the text cannot be a call.
CallReader::State PythonCalls::in_call(char c, OutputSink* sink) {
  text_ += c;
  call_ += c;
  const int depth = span_.push(c);
  switch (place_) {
    case Place::kName:
      if (c == '(') {
        place_ = Place::kKey;
        return State::kMore;
      }
      return is_of_name(c) ? State::kMore : State::kText;
    case Place::kKey:
      if (c == '=') {
        place_ = Place::kValue;
        return State::kMore;
      }
      if (c != ')') return is_of_name(c) || is_blank(c) ? State::kMore : State::kText;
      break;
    default:
      if (c == ',' && depth == 1 && !span_.in_string()) place_ = Place::kKey;
      if (c == '<' && !span_.in_string()) return State::kText;
      if (depth > 0) return State::kMore;
  }
  const std::optional<PythonCall> call = parse_python_call(call_);
  if (!call.has_value()) return State::kText;
  text_.clear();
  sink->begin_call(call->name);
  sink->add_arguments(call->arguments);
  sink->end_call();
  place_ = Place::kBetween;
  after_call_ = true;
  return State::kMore;
}

void PythonCalls::finish(bool, OutputSink*) {
  if (!after_call_) text_ += tags_.take_withheld();
}

}  // namespace lockstep
