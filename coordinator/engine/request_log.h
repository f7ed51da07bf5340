// SPDX-License-Identifier: Apache-2.0
// A log line at level info for each request that ended or was refused: its client, status, sizes
// and times. It never contains the request's text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "coordinator/engine/engine_observer.h"

namespace lockstep {

// Logs a request that was refused before it reached the queue; `traceparent` and `id` may be empty.
// Requests without a valid key share one line per second: its field `refusals` counts them, if
// there is more than one. Any thread.
void log_refused(std::string_view client, std::string_view endpoint, std::string_view traceparent,
                 const absl::Status& status, std::string_view id = {});

// An engine observer. A request that arrives while the log's level is above info has no line.
class RequestLog final : public EngineObserver {
 public:
  void on_submitted(const Stream* stream, const EngineRequest& request,
                    int64_t submitted_ns) override;
  void on_started(const Stream* stream, int64_t now_ns) override;
  void on_event(const Stream* stream, const StreamEvent& event, int64_t now_ns) override;
  void on_closed(const Stream* stream, const absl::Status& status, int64_t now_ns) override;

 private:
  struct Entry {
    std::string id;
    std::string client;
    std::string endpoint;
    std::string traceparent;
    int64_t choices = 0;
    int64_t prompt_tokens = 0;
    int64_t completion_tokens = 0;
    int64_t cached_tokens = 0;
    FinishReason finish_reason = FinishReason::kNone;  // The last one of all choices.
    int64_t submitted_ns = 0;
    std::optional<int64_t> started_ns;
    std::optional<int64_t> first_token_ns;
  };
  std::unordered_map<const Stream*, Entry> entries_;
};

}  // namespace lockstep
