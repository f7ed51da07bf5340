// SPDX-License-Identifier: Apache-2.0
// Calls that are JSON objects: {"name": "f", "arguments": {...}}, read byte by byte.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "coordinator/output/calls/call_reader.h"
#include "coordinator/output/calls/json_text.h"
#include "coordinator/output/tag_finder.h"

namespace lockstep {

// One object with its members in any order; other members are allowed. "parameters" means the same
// as "arguments". If the arguments are a string, its content is used.
class CallScanner {
 public:
  enum class State { kMore, kDone, kFailed };

  // `name_key`: the member with the name. Empty: the first member's key is the name, and its value
  // the arguments.
  explicit CallScanner(std::string_view name_key) : name_key_(name_key) {}

  // Called from the opening brace on; not after kDone or kFailed.
  State push(char c);

  // The complete name; empty while it is not known.
  const std::string& name() const { return name_; }
  // The bytes of the arguments since take_arguments() was last called, as the model wrote them.
  std::string take_arguments() { return std::exchange(arguments_, {}); }
  // Whether any arguments were read.
  bool has_arguments() const { return has_arguments_; }

 private:
  enum class Place { kStart, kKeyOrEnd, kKey, kColon, kValue, kInValue, kCommaOrEnd };

  State fail() { return State::kFailed; }
  State in_key(char c);
  State begin_value(char c);
  State in_value(char c);
  State in_span(char c);
  State end_value();

  std::string_view name_key_;
  Place place_ = Place::kStart;
  std::string key_;         // In quotes while it is read.
  std::string value_;       // A string, in quotes; or a number or word.
  bool is_span_ = false;    // The value is an object or a list.
  bool is_string_ = false;  // The value is a string.
  bool is_arguments_ = false;
  bool escaped_ = false;
  JsonSpan span_;
  std::string name_;
  std::string arguments_;
  bool has_arguments_ = false;
};

// One object, a list of them, or several with ',' or ';' between them.
class JsonCalls final : public CallReader {
 public:
  explicit JsonCalls(const Format& format);

  State push(char c, OutputSink* sink) override;
  void finish(bool is_cut, OutputSink* sink) override;

 private:
  State between(char c, OutputSink* sink);
  State separator(char c, OutputSink* sink);
  State in_call(char c, OutputSink* sink);

  const Format& format_;
  TagFinder tags_;
  bool in_call_ = false;
  CallScanner scanner_;
  bool named_ = false;       // The name of the current call was sent.
  bool after_call_ = false;  // There was a call.
};

}  // namespace lockstep
