// SPDX-License-Identifier: Apache-2.0
// gpt-oss's answers: a sequence of messages, each with a header (a channel, and perhaps a
// recipient) and a body. A message to functions.f is a call. A message in the channel analysis, or
// to another recipient, is a thought. All else is content.
#pragma once

#include <string>

#include "coordinator/output/calls/call_reader.h"
#include "coordinator/output/calls/json_text.h"
#include "coordinator/output/tag_finder.h"

namespace lockstep {

// Never returns kDone: it reads the whole answer.
class Harmony final : public CallReader {
 public:
  struct Options {
    bool thoughts = true;     // False: a thought is content.
    bool calls = true;        // False: a call is content.
    bool in_thought = false;  // The prompt ends inside a thought.
  };
  Harmony(const Format& format, const Options& options, OutputSink* sink);

  State push(char c, OutputSink* sink) override;
  void finish(bool is_cut, OutputSink* sink) override;

 private:
  // kOpen: a header may begin or be missing.
  enum class Place { kOpen, kHeader, kThought, kContent, kCall };

  void add_text(char c, OutputSink* sink);
  void at_tag(std::string_view tag, OutputSink* sink);
  void in_call(char c, OutputSink* sink);
  void begin_body(OutputSink* sink);
  void end_body(OutputSink* sink);

  const Options options_;
  TagFinder tags_;
  Place place_ = Place::kOpen;
  std::string header_;
  JsonSpan arguments_;
  bool is_object_ = false;  // The arguments have begun, and are an object.
  bool is_over_ = false;    // The arguments have ended.
};

}  // namespace lockstep
