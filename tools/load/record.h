// SPDX-License-Identifier: Apache-2.0
// What was seen of one request. Times are seconds since the load's start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct LoadRecord {
  double scheduled_s = 0;   // When it should have been sent: latencies count from here.
  double sent_s = 0;        // When the client began with it.
  double first_text_s = 0;  // Of an answer without any text, when it finished.
  double last_text_s = 0;
  double end_s = 0;            // When the answer, or the hope of one, had ended.
  std::vector<float> gaps_ms;  // Between events with text; not before the first.
  int64_t text_events = 0;
  int64_t prompt_tokens = 0;  // As the server counts; 0 where it does not.
  int64_t output_tokens = 0;  // The same.
  std::string failure;        // Empty: answered. Else its kind: "HTTP 429", "timeout".
  std::string detail;         // Of a failure.
};

}  // namespace lockstep
