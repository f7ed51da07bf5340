// SPDX-License-Identifier: Apache-2.0
// An answer that is JSON.
#pragma once

#include "base/json.h"
#include "coordinator/http/exchange.h"

namespace lockstep::http {

// As write_json(), with application/json.
Response json_response(const OrderedJson& body, int status = 200);
// Of JSON that is text already.
Response json_text_response(std::string body, int status = 200);

}  // namespace lockstep::http
