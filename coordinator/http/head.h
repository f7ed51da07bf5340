// SPDX-License-Identifier: Apache-2.0
// Reads a request's head, from the request line to the empty line, strictly. A head that two
// programs could read in two ways (RFC 9112) is refused. So this server and a proxy in front of it
// always see the same requests.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "coordinator/http/refusal.h"

namespace lockstep::http {

// The form of the body, the version, and whether the client waits for "100 Continue".
struct Framing {
  int64_t content_length = 0;
  bool chunked = false;
  bool http_1_1 = true;
  bool expects_continue = false;
};

// Checks `head`, which ends with the empty line. Refuses line ends other than CR LF, folded lines,
// NUL and other control characters, misplaced blanks, and versions other than 1.0 and 1.1.
std::optional<Refusal> check_lines(std::string_view head);

// Fills `framing`. Refuses a second or invalid Host, and in HTTP/1.1 a missing one; a second or
// invalid Content-Length; both Content-Length and Transfer-Encoding; a Transfer-Encoding other than
// chunked, and in HTTP/1.0 any; a Content-Encoding other than identity; an Expect other than
// 100-continue; a body above `max_body_bytes`. `minor` is from the version: 1 for HTTP/1.1.
std::optional<Refusal> check_headers(const Headers& headers, int minor, size_t max_body_bytes,
                                     Framing* framing);

// Splits "/v1/models?limit=3", or "http://host/v1/models", or "*" with OPTIONS, into path and
// query.
std::optional<Refusal> read_target(std::string_view method, std::string_view target,
                                   Request* request);

}  // namespace lockstep::http
