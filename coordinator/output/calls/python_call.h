// SPDX-License-Identifier: Apache-2.0
// Calls in Python: [f(k="v", n=3), g()], or one per line. Each call is sent when it is complete.
#pragma once

#include <string>

#include "coordinator/output/calls/call_reader.h"
#include "coordinator/output/calls/python_literal.h"
#include "coordinator/output/tag_finder.h"

namespace lockstep {

class PythonCalls final : public CallReader {
 public:
  explicit PythonCalls(const Format& format);

  State push(char c, OutputSink* sink) override;
  void finish(bool is_cut, OutputSink* sink) override;

 private:
  // kKey: an argument's name, or the closing parenthesis.
  enum class Place { kBetween, kName, kKey, kValue };

  State between(char c);
  State in_call(char c, OutputSink* sink);

  const Format& format_;
  TagFinder tags_;
  Place place_ = Place::kBetween;
  bool after_call_ = false;
  std::string call_;
  PythonSpan span_;
};

}  // namespace lockstep
