// SPDX-License-Identifier: Apache-2.0
// The headers that identify a request.
#pragma once

#include <string>

#include "coordinator/http/exchange.h"

namespace lockstep::openai {

// The value of traceparent, checked by lockstep::traceparent_of(); "" if there are several.
std::string traceparent_of(const http::Request& request);

// X-Request-Id, the client's name for its request; "" if there is none, or it is not a valid name.
std::string id_of(const http::Request& request);

}  // namespace lockstep::openai
