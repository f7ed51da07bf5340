// SPDX-License-Identifier: Apache-2.0
// Reads one streamed answer as its bytes arrive.
#pragma once

#include <string>
#include <string_view>

#include "tools/load/openai.h"
#include "tools/load/record.h"
#include "tools/load/sse.h"

namespace lockstep {

// Writes its results into a record, which must outlive the reader.
class AnswerReader {
 public:
  explicit AnswerReader(LoadRecord* record) : record_(record) {}

  // Bytes of the body that arrived at this time. Ignored after the record has a failure.
  void feed(std::string_view bytes, double now_s);
  // The body has ended: an answer without an end marker is a failure.
  void end(double now_s);
  void fail(std::string kind, std::string detail, double now_s);

 private:
  void read(std::string_view data, double now_s);

  LoadRecord* const record_;
  SseParser sse_;
  bool finished_ = false;  // A finish_reason or [DONE] arrived.
  bool done_ = false;      // [DONE] arrived: the answer has ended, whatever the connection does.
};

}  // namespace lockstep
