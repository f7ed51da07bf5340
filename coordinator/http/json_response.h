// SPDX-License-Identifier: Apache-2.0
// Answers in JSON.
#pragma once

#include "base/json.h"
#include "coordinator/http/exchange.h"

namespace lockstep::http {

// The text of write_json(), as application/json.
Response json_response(const OrderedJson& body, int status = 200);
// The same for JSON that is already text.
Response json_text_response(std::string body, int status = 200);

}  // namespace lockstep::http
