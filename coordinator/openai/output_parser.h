// SPDX-License-Identifier: Apache-2.0
// Cuts thoughts and tool calls out of a model's text as it comes. The pieces, joined, are the same
// for every way in which the text was cut.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/openai/call_scanner.h"
#include "coordinator/openai/output_format.h"

namespace lockstep::openai {

// News of one call.
struct CallDelta {
  size_t index = 0;
  std::string name;       // With the first news.
  std::string arguments;  // To be appended.
};

struct OutputDelta {
  std::string thought;
  std::string content;
  std::vector<CallDelta> calls;  // At most one of each call.

  bool empty() const { return thought.empty() && content.empty() && calls.empty(); }
};

struct OutputOptions {
  const ThoughtFormat* thoughts = nullptr;  // Null: everything is content.
  bool in_thought = false;                  // The prompt has begun one.
  const ToolFormat* tools = nullptr;        // Null: no call is looked for.
  bool one_call = false;                    // Further ones are dropped.
};

// Thoughts are looked for at the beginning of the text only. Blanks are trimmed at the ends of
// thoughts, between thoughts and content, and beside calls. What looks like a call and is none
// stays content.
class OutputParser {
 public:
  explicit OutputParser(const OutputOptions& options);

  OutputDelta push(std::string_view text);
  // The text is over: what was held back, in which there is no call.
  OutputDelta finish();
  bool has_calls() const { return calls_ > 0; }

 private:
  enum class Place {
    kStart,         // Before a thought, if there is one.
    kThought,       //
    kAfterThought,  // Blanks.
    kContent,
    kBareStart,  // Of a format without a begin: a call, if it begins with '{'.
    kCalls,      // Between calls.
    kName,       // Of name{...}.
    kCall,
  };

  void push(char c);
  void at_start(char c);
  void in_thought(char c);
  void in_content(char c);
  void between_calls(char c);
  void in_name(char c);
  void in_call(char c);
  void begin_content(std::string_view text);
  void begin_calls(std::string_view tag);
  void begin_call();
  void name_call(const std::string& name);
  void end_call();
  void no_call();
  void add_thought(char c);
  void add_content(char c);
  void add_arguments(const std::string& arguments);
  CallDelta* news();

  const OutputOptions options_;
  Place place_;
  OutputDelta delta_;
  std::string held_;    // What may become a tag.
  std::string blanks_;  // Of a thought or content, whose next byte decides.
  std::string raw_;     // Of a call whose name is not known: content if it turns out to be none.
  CallScanner scanner_;
  size_t calls_ = 0;         // Whose names are known.
  bool named_ = false;       // The call that is read is one of them.
  bool is_short_ = false;    // It is name{...}.
  bool after_call_ = false;  // Nothing but blanks since.
  bool has_thought_ = false;
};

}  // namespace lockstep::openai
