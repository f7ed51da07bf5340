// SPDX-License-Identifier: Apache-2.0
// Reads the calls of one block: from its begin tag, or from the first byte of a text that may be a
// call, to its end.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "coordinator/output/format.h"
#include "coordinator/output/output_sink.h"
#include "coordinator/output/schema_type.h"

namespace lockstep {

class CallReader {
 public:
  enum class State {
    kMore,
    kDone,  // The block is over with this byte.
    kText,  // It is over, or was none: take_text() is content.
  };

  virtual ~CallReader() = default;

  // Neither after kDone nor after kText.
  virtual State push(char c, OutputSink* sink) = 0;
  // The answer is over; `is_cut`: by max_tokens. What is complete but for its end tag counts.
  virtual void finish(bool is_cut, OutputSink* sink) = 0;

  // The bytes since the last call, which belong to none.
  std::string take_text() { return std::exchange(text_, {}); }

 protected:
  std::string text_;
};

// The format outlives the reader. `functions` may be null.
std::unique_ptr<CallReader> make_call_reader(const Format& format,
                                             const FunctionSchemas* functions);

}  // namespace lockstep
