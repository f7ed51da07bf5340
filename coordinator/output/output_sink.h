// SPDX-License-Identifier: Apache-2.0
// Collects the thoughts, content and calls of a model's text in pieces.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The new part of one call.
struct CallDelta {
  size_t index = 0;
  std::string id;         // The model's own id, in the first delta; empty: none, or used before.
  std::string name;       // The whole name, in the first delta.
  std::string arguments;  // To be appended.
};

struct OutputDelta {
  std::string thought;
  std::string content;
  std::vector<CallDelta> calls;  // At most one for each call.

  bool empty() const { return thought.empty() && content.empty() && calls.empty(); }
  // Adds the delta that follows this one.
  void append(OutputDelta more);
};

// Gathers a delta. Trims blanks at the ends of thoughts, between thoughts and content, and before
// calls. Text may arrive in any pieces.
class OutputSink {
 public:
  // `one_call`: further calls are dropped.
  explicit OutputSink(bool one_call) : one_call_(one_call) {}

  // A thought after another one begins on a new line.
  void begin_thought();
  void add_thought(std::string_view text);
  void end_thought();
  // Whether the open thought has any text.
  bool has_thought() const { return has_thought_; }

  void add_content(std::string_view text);
  // Drops the blanks at the end of content. If the next text begins with blanks, these separate
  // it from the content; else a line break does.
  void drop_pending_blanks();
  void begin_call(std::string_view name, std::string_view id = {});
  // Appends to the last call.
  void add_arguments(std::string_view text);
  // If the call has no arguments, it gets "{}".
  void end_call();
  size_t calls() const { return calls_; }

  OutputDelta take();
  // The text has ended: the blanks at its end are content.
  void finish();

 private:
  CallDelta* current();

  const bool one_call_;
  OutputDelta delta_;
  std::string blanks_;          // Blanks at the end of content, which are not sent yet.
  std::string thought_blanks_;  // Blanks at the end of a thought.
  bool has_thought_ = false;
  bool has_thoughts_ = false;
  bool has_content_ = false;
  bool drops_blanks_ = false;  // Only blanks since the last call, thought or message.
  size_t calls_ = 0;
  bool has_arguments_ = false;
  std::set<std::string, std::less<>> ids_;
};

}  // namespace lockstep
