// SPDX-License-Identifier: Apache-2.0
// Splits one choice's events into thoughts, content and calls, and counts the tokens of thoughts.
#pragma once

#include <cstdint>

#include "coordinator/output/output_parser.h"
#include "coordinator/streams/stream.h"

namespace lockstep::openai {

class ChoiceReader {
 public:
  // `shows_thoughts`: if false, thoughts are counted and dropped.
  explicit ChoiceReader(const OutputOptions& options, bool shows_thoughts = true)
      : parser_(options), shows_thoughts_(shows_thoughts) {}

  // The text that the event adds. With a finish reason, also the text that was held back.
  OutputDelta read(const StreamEvent& event);

  bool has_calls() const { return parser_.has_calls(); }
  // The number of tokens from the first to the last whose text is part of a thought. The tags
  // around a thought do not count.
  int64_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  OutputParser parser_;
  const bool shows_thoughts_;
  int64_t reasoning_tokens_ = 0;
  int64_t tokens_since_ = 0;  // The number of tokens after the last such token.
};

}  // namespace lockstep::openai
