// SPDX-License-Identifier: Apache-2.0
// Splits a model's text into thoughts, content and tool calls while it arrives. The joined pieces
// do not depend on how the text was cut.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "coordinator/output/calls/call_reader.h"
#include "coordinator/output/calls/schema_type.h"
#include "coordinator/output/format.h"
#include "coordinator/output/output_sink.h"
#include "coordinator/output/tag_finder.h"

namespace lockstep {

// The state at the end of the prompt: templates may begin a thought for the model, or write an
// empty one.
enum class ThoughtPlace { kBefore, kWithin, kAfter };

// The formats outlive the options.
struct OutputOptions {
  const Format* thoughts = nullptr;  // Null: everything is content.
  ThoughtPlace place = ThoughtPlace::kBefore;
  const Format* tools = nullptr;                             // Null: the text has no calls.
  bool one_call = false;                                     // Calls after the first are dropped.
  std::shared_ptr<const FunctionTypes> functions = nullptr;  // Null: types are unknown.
};

// Text that looks like a call but is not one stays content. The parser holds back: bytes that may
// become a tag; calls whose name is not complete; all text after a call's tag in a thought, if the
// format lets a call end a thought.
class OutputParser {
 public:
  explicit OutputParser(const OutputOptions& options);

  OutputDelta push(std::string_view text);
  // The text has ended; `is_cut`: max_tokens ended it. The text of an unfinished call that has no
  // name yet becomes content. If `is_cut` and the call began with a tag, its text is dropped
  // instead.
  OutputDelta finish(bool is_cut = false);
  bool has_calls() const { return sink_.calls() > 0; }

 private:
  enum class Place { kStart, kThought, kContent, kCalls };

  void push(char c);
  void at_start(char c);
  void in_thought(char c);
  void in_content(char c);
  void in_calls(char c);
  void begin_thought(std::string_view begin);
  void end_thought();
  void begin_content();
  void begin_calls(std::string_view tag);
  void content_byte(char c);
  void content_tag(std::string_view tag);

  const OutputOptions options_;
  OutputSink sink_;
  Place place_ = Place::kStart;
  TagFinder tags_;                   // The tags that matter at this place.
  std::string_view thought_end_;     // Empty: any end tag of the format.
  bool in_call_of_thought_ = false;  // A call's tag was found in the thought.
  std::string call_of_thought_;      // The text from that tag on.
  bool is_fresh_ = true;             // Content has not begun, except for blanks and wraps.
  std::string_view wrap_end_;        // The end tag of the open wrap.
  std::unique_ptr<CallReader> calls_;
  bool has_tag_ = false;  // The calls began with a tag.
};

}  // namespace lockstep
