// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/event_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace lockstep::http {

Response event_stream_head() {
  return {.headers = {{"Content-Type", "text/event-stream; charset=utf-8"},
                      {"Cache-Control", "no-cache"},
                      {"X-Accel-Buffering", "no"}}};
}

void append_event(std::string_view data, std::optional<uint64_t> id, std::string* bytes,
                  std::string_view type) {
  if (id.has_value()) fmt::format_to(std::back_inserter(*bytes), "id: {}\n", *id);
  if (!type.empty()) fmt::format_to(std::back_inserter(*bytes), "event: {}\n", type);
  while (true) {
    // Two searches for one byte are faster than one for either of two.
    const size_t feed = std::min(data.find('\n'), data.size());
    const size_t end = std::min(data.substr(0, feed).find('\r'), feed);
    *bytes += "data: ";
    *bytes += data.substr(0, end);
    *bytes += '\n';
    if (end == data.size()) break;
    data.remove_prefix(data.substr(end).starts_with("\r\n") ? end + 2 : end + 1);
  }
  *bytes += '\n';
}

void append_done(std::string* bytes) { *bytes += "data: [DONE]\n\n"; }

}  // namespace lockstep::http
