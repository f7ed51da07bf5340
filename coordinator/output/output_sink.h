// SPDX-License-Identifier: Apache-2.0
// Thoughts, content and calls of a model's text, as pieces.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// News of one call.
struct CallDelta {
  size_t index = 0;
  std::string id;         // The model's own, with the first news; empty: it wrote none.
  std::string name;       // Whole, with the first news.
  std::string arguments;  // To be appended.
};

struct OutputDelta {
  std::string thought;
  std::string content;
  std::vector<CallDelta> calls;  // At most one of each call.

  bool empty() const { return thought.empty() && content.empty() && calls.empty(); }
  // Adds the delta that follows this one.
  void append(OutputDelta more);
};

// Gathers a delta. Blanks are trimmed at the ends of thoughts, between thoughts and content, and
// before calls. Text comes in any pieces.
class OutputSink {
 public:
  // `one_call`: further calls are dropped.
  explicit OutputSink(bool one_call) : one_call_(one_call) {}

  // A thought that follows another one is on a line of its own.
  void begin_thought();
  void add_thought(std::string_view text);
  void end_thought();
  // Whether the thought that is open has a text.
  bool has_thought() const { return has_thought_; }

  void add_content(std::string_view text);
  // Drops the blanks at the end of content. What follows is apart from it: by its own blanks, else
  // by a line break.
  void drop_blanks();
  void begin_call(std::string_view name, std::string_view id = {});
  // To the call that was begun last.
  void add_arguments(std::string_view text);
  // Without arguments it gets "{}".
  void end_call();
  size_t calls() const { return calls_; }

  OutputDelta take();
  // The text is over: the blanks at its end are content.
  void finish();

 private:
  CallDelta* news();

  const bool one_call_;
  OutputDelta delta_;
  std::string blanks_;          // At the end of content, whose next byte decides,
  std::string thought_blanks_;  // and of a thought.
  bool has_thought_ = false;
  bool has_thoughts_ = false;
  bool has_content_ = false;
  bool drops_blanks_ = false;  // Nothing but blanks since a call, a thought or a message.
  size_t calls_ = 0;
  bool has_arguments_ = false;
  std::set<std::string, std::less<>> ids_;
};

}  // namespace lockstep
