// SPDX-License-Identifier: Apache-2.0
// The headers of a request by which it is found again.
#pragma once

#include <string>

#include "coordinator/http/exchange.h"

namespace lockstep::openai {

// traceparent, as lockstep::traceparent_of() has it; "" for several.
std::string traceparent_of(const http::Request& request);

// X-Request-Id, the client's name of its request; "" for none, or one that cannot be a name.
std::string id_of(const http::Request& request);

}  // namespace lockstep::openai
