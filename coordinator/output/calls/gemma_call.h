// SPDX-License-Identifier: Apache-2.0
// Calls as Gemma writes them: call:f{k:v,n:3,l:[1],o:{x:1}}. A string is between two quote tags,
// without escapes; keys and other values are bare.
#pragma once

#include <string>
#include <vector>

#include "coordinator/output/calls/call_reader.h"
#include "coordinator/output/tag_finder.h"

namespace lockstep {

class GemmaCalls final : public CallReader {
 public:
  explicit GemmaCalls(const Format& format);

  State push(char c, OutputSink* sink) override;
  void finish(bool is_cut, OutputSink* sink) override;

 private:
  enum class Place { kBetween, kHead, kKey, kValue, kString };

  State at_text(char c, OutputSink* sink);
  State at_tag(std::string_view tag, OutputSink* sink);
  State in_head(char c, OutputSink* sink);
  void in_values(char c, OutputSink* sink);
  void begin_string(OutputSink* sink);
  void end_string(OutputSink* sink);
  void end_key(OutputSink* sink);
  void end_bare(OutputSink* sink);
  void open(char bracket, OutputSink* sink);
  void close(OutputSink* sink);
  void separate(OutputSink* sink);

  const Format& format_;
  TagFinder tags_;
  Place place_ = Place::kBetween;
  bool after_call_ = false;
  std::string head_;            // The text before the call's brace.
  std::string bare_;            // A key, or a value that is not a string.
  bool is_key_ = false;         // The string is a key.
  bool has_value_ = false;      // The current value is written.
  std::vector<char> brackets_;  // The open brackets.
  std::vector<bool> filled_;    // Whether each open bracket has a value.
};

}  // namespace lockstep
