// SPDX-License-Identifier: Apache-2.0
// One streamed answer, followed while its bytes come.
#pragma once

#include <string>
#include <string_view>

#include "tools/load/openai.h"
#include "tools/load/record.h"
#include "tools/load/sse.h"

namespace lockstep {

// Writes what it sees into a record, which has to outlive it.
class AnswerReader {
 public:
  explicit AnswerReader(LoadRecord* record) : record_(record) {}

  // Bytes of the body that came at this time. Nothing changes once the record has a failure.
  void feed(std::string_view bytes, double now_s);
  // The body has ended: an answer whose end was not said is a failure.
  void end(double now_s);
  void fail(std::string kind, std::string detail, double now_s);

 private:
  void read(std::string_view data, double now_s);

  LoadRecord* const record_;
  SseParser sse_;
  bool finished_ = false;  // A finish_reason or [DONE] came.
  bool done_ = false;      // [DONE] came: the answer has ended, whatever the connection does.
};

}  // namespace lockstep
