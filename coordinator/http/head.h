// SPDX-License-Identifier: Apache-2.0
// A request's first part, from the request line to the empty line, read strictly: where two
// programs could read it in two ways (RFC 9112), it is refused, so that none behind a proxy sees
// other requests than the proxy did.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "coordinator/http/refusal.h"

namespace lockstep::http {

// What the bytes after the head are, and what becomes of the connection.
struct Framing {
  int64_t content_length = 0;
  bool chunked = false;
  bool http_1_1 = true;
  bool expects_continue = false;
};

// Of `head`, which ends with the empty line. Refuses line ends other than CR LF, folded lines, NUL
// and other control characters, blanks where none belong, versions other than 1.0 and 1.1.
std::optional<Refusal> check_lines(std::string_view head);

// Fills `framing`. Refuses a missing, second or impossible Host; a second Content-Length; both
// Content-Length and Transfer-Encoding; a Transfer-Encoding other than chunked; a Content-Encoding
// other than identity; an Expect other than 100-continue; a body above `max_body_bytes`. `minor` is
// the version's: 1 of HTTP/1.1.
std::optional<Refusal> check_headers(const Headers& headers, int minor, size_t max_body_bytes,
                                     Framing* framing);

// "/v1/models?limit=3", or "http://host/v1/models", or "*" with OPTIONS -> path and query.
std::optional<Refusal> read_target(std::string_view method, std::string_view target,
                                   Request* request);

}  // namespace lockstep::http
