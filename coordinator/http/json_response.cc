// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/json_response.h"

#include <utility>

namespace lockstep::http {

Response json_response(const OrderedJson& body, int status) {
  return json_text_response(write_json(body), status);
}

Response json_text_response(std::string body, int status) {
  return {
      .status = status, .headers = {{"Content-Type", "application/json"}}, .body = std::move(body)};
}

}  // namespace lockstep::http
