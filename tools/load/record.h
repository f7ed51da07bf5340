// SPDX-License-Identifier: Apache-2.0
// The record of one request. Times are seconds since the load's start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct LoadRecord {
  double scheduled_s = 0;   // When the request was due: latencies count from here.
  double sent_s = 0;        // When the client started to send it.
  double first_text_s = 0;  // For an answer without any text, when it finished.
  double last_text_s = 0;
  double end_s = 0;            // When the answer ended or failed.
  std::vector<float> gaps_ms;  // Between events with text, from the first such event on.
  int64_t text_events = 0;
  int64_t prompt_tokens = 0;  // By the server's count; 0: unknown.
  int64_t output_tokens = 0;  // By the server's count; 0: unknown.
  std::string failure;        // Empty: answered. Else its kind: "HTTP 429", "timeout".
  std::string detail;         // Describes the failure.
};

}  // namespace lockstep
