// SPDX-License-Identifier: Apache-2.0
// Server-sent events: an answer that comes event by event (text/event-stream of the HTML standard).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/http/exchange.h"

namespace lockstep::http {

// Status and headers of the answer: kept by no cache, held back by no proxy.
Response event_stream_head();

// "id: 7", "event: type", "data: {...}" and an empty line; data of several lines is several
// `data:`. `type` has no line ends; empty: none.
void append_event(std::string_view data, std::optional<uint64_t> id, std::string* bytes,
                  std::string_view type = {});
// "data: [DONE]", OpenAI's last event.
void append_done(std::string* bytes);

// A source of events: silence is filled with comments, which clients skip. No empty line ends one:
// the official OpenAI client for Python takes any after an event with an id for an event without
// data, and fails.
class EventSource : public BodySource {
 public:
  std::string_view keep_alive() const override { return ": keep-alive\n"; }
};

}  // namespace lockstep::http
