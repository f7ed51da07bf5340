// SPDX-License-Identifier: Apache-2.0
// The answer to a request that is refused before it reaches a route, or that matches no route.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/http/exchange.h"

namespace lockstep::http {

struct Refusal {
  int status = 400;
  const char* code = "";  // For programs: "body_too_large".
  std::string message;    // For people, one line.
  Headers headers;        // "Allow", "Retry-After".
};

// A gate's answer to a request whose body was not received yet.
struct Admission {
  std::optional<Refusal> refusal;    // If set, the body is not received.
  std::string client;                // The client of the request; "": unknown.
  size_t max_body_bytes = SIZE_MAX;  // A bound besides ReadLimits::body_bytes.
  bool streams_body = false;  // HTTP/2: the handler gets the request before its body (on_body()).
  bool has_endless_body = false;  // With streams_body: Limits::body does not limit its time.
};
// Called by an I/O thread; must not block.
using Gate = std::function<Admission(const Request& head)>;

using RenderRefusal = std::function<Response(const Refusal&)>;
// More headers for a refusal, if a web page of this origin sent the request.
using PageHeaders = std::function<Headers(std::string_view origin)>;

// Refuses an answer because clients have too many bytes to read (Limits::all_answer_bytes).
Refusal too_many_unread();
// Refuses a body because too many bytes are being received (Limits::all_body_bytes): from all
// clients together (`of_all`), or from this client.
Refusal too_much_received(bool of_all);

// The `type` of an error with this status: "rate_limit_error" for 429, and so on.
const char* error_type(int status);

// An error in the form of OpenAI's API: {"error": {"message", "type", "param", "code"}}.
Response render_refusal(const Refusal& refusal);

}  // namespace lockstep::http
