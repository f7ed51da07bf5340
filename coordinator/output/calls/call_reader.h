// SPDX-License-Identifier: Apache-2.0
// Reads the calls of one block: from its begin tag, or from the first byte of a text that may be a
// call, to its end.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "coordinator/output/calls/schema_type.h"
#include "coordinator/output/format.h"
#include "coordinator/output/output_sink.h"
#include "coordinator/output/tag_finder.h"

namespace lockstep {

class CallReader {
 public:
  enum class State {
    kMore,
    kDone,  // The block ends with this byte.
    kText,  // The block has ended, or the text was no block: take_text() is content.
  };

  virtual ~CallReader() = default;

  // Must not be called after kDone or kText.
  virtual State push(char c, OutputSink* sink) = 0;
  // The answer has ended; `is_cut`: max_tokens ended it. A call that lacks only its end tag counts
  // as complete.
  virtual void finish(bool is_cut, OutputSink* sink) = 0;

  // The bytes after the last complete tool call, which belong to no call.
  std::string take_text() { return std::exchange(text_, {}); }

 protected:
  // Passes a byte on through `tags`: at_text(char) gets text outside tags, at_tag(tag) gets tags.
  // If at_text() ends the block, the later bytes are stored in text_.
  template <typename AtText, typename AtTag>
  State read(char c, TagFinder* tags, const AtText& at_text, const AtTag& at_tag) {
    std::string text;
    const auto tag = tags->push(c, &text);
    for (size_t i = 0; i < text.size(); ++i) {
      const State state = at_text(text[i]);
      if (state == State::kMore) continue;
      text_ += text.substr(i + 1) + tags->take_withheld();
      return state;
    }
    return tag.has_value() ? at_tag(*tag) : State::kMore;
  }

  std::string text_;
};

// The format outlives the reader. `functions` may be null.
std::unique_ptr<CallReader> make_call_reader(const Format& format, const FunctionTypes* functions);

}  // namespace lockstep
