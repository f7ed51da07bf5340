// SPDX-License-Identifier: Apache-2.0
// Server-sent events: an answer that is sent event by event (text/event-stream of the HTML
// standard).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/http/exchange.h"

namespace lockstep::http {

// Status and headers of the answer: no cache may keep it, and no proxy may delay it.
Response event_stream_head();

// Writes "id: 7", "event: type", "data: {...}" and an empty line; each line of the data gets its
// own `data:`. `type` has no line ends; empty: none.
void append_event(std::string_view data, std::optional<uint64_t> id, std::string* bytes,
                  std::string_view type = {});
// "data: [DONE]", OpenAI's last event.
void append_done(std::string* bytes);

// A source of events. Its keep-alive is a line that clients skip: an empty line, since benchmark
// clients read any other line as an event. If events have ids, the line is a comment: after an
// event with an id, the official OpenAI client for Python reads an empty line as an event without
// data, and fails.
class EventSource : public BodySource {
 public:
  explicit EventSource(bool has_ids = false) : has_ids_(has_ids) {}
  std::string_view keep_alive() const override { return has_ids_ ? ": keep-alive\n" : "\n"; }

 protected:
  bool has_ids() const { return has_ids_; }

 private:
  const bool has_ids_;
};

}  // namespace lockstep::http
