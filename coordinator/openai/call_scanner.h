// SPDX-License-Identifier: Apache-2.0
// One tool call's JSON, read byte by byte: its arguments are known as they come.
#pragma once

#include <string>
#include <utility>

namespace lockstep::openai {

// {"name": "f", "arguments": {...}}, its members in any order, others among them. "parameters" is
// another word for arguments; arguments that are a string are its content.
class CallScanner {
 public:
  enum class State { kMore, kDone, kFailed };

  // From the opening brace on. Neither after kDone nor after kFailed.
  State push(char c);

  // Complete; empty: not known yet.
  const std::string& name() const { return name_; }
  // What came of the arguments since the last time, as the model wrote it.
  std::string take_arguments() { return std::exchange(arguments_, {}); }
  // Whether there was something of them.
  bool has_arguments() const { return has_arguments_; }
  // A member has ended, and none has begun.
  bool between_members() const { return place_ == Place::kCommaOrEnd; }

 private:
  enum class Place { kStart, kKeyOrEnd, kKey, kColon, kValue, kInValue, kCommaOrEnd };

  State fail() { return State::kFailed; }
  State begin_value(char c);
  State in_value(char c);
  State end_value();
  bool is_arguments() const { return key_ == "arguments" || key_ == "parameters"; }

  Place place_ = Place::kStart;
  std::string key_;    // In quotes while it is read.
  std::string value_;  // A string, in quotes; or a number or word.
  int depth_ = 0;      // Of brackets within the value.
  bool in_string_ = false;
  bool escaped_ = false;
  std::string name_;
  std::string arguments_;
  bool has_arguments_ = false;
};

}  // namespace lockstep::openai
