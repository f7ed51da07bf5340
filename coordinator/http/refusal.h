// SPDX-License-Identifier: Apache-2.0
// What is answered to a request that no route gets to see, or that none is for.
#pragma once

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

// A gate's answer to a request whose body is not there yet.
struct Admission {
  std::optional<Refusal> refusal;  // With one the body is not received.
  std::string client;              // That the body is received for; "": none is named.
};
// Called by an I/O thread; must not block.
using Gate = std::function<Admission(const Request& head)>;

using RenderRefusal = std::function<Response(const Refusal&)>;
// The headers of a refusal besides, where a web page of this origin asked.
using PageHeaders = std::function<Headers(std::string_view origin)>;

// What an error of this status is called: "rate_limit_error" for 429, and so on.
const char* error_type(int status);

// As OpenAI's API says errors: {"error": {"message", "type", "param", "code"}}.
Response render_refusal(const Refusal& refusal);

}  // namespace lockstep::http
