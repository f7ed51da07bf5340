// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/json_response.h"

namespace lockstep::http {

Response json_response(const OrderedJson& body, int status) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"}},
          .body = write_json(body)};
}

}  // namespace lockstep::http
