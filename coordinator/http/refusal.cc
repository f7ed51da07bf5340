// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/refusal.h"

#include "coordinator/http/json_response.h"

namespace lockstep::http {

Refusal too_many_unread() {
  return {.status = 503,
          .code = "overloaded",
          .message = "too many bytes of answers wait to be read; try again",
          .headers = {{"Retry-After", "1"}}};
}

Refusal too_much_received(bool of_all) {
  return {.status = 503,
          .code = "overloaded",
          .message = of_all ? "too much is being received at once; try again"
                            : "too much is being received from this client at once; try again",
          .headers = {{"Retry-After", "1"}}};
}

const char* error_type(int status) {
  if (status >= 500) return "server_error";
  if (status == 429) return "rate_limit_error";
  if (status == 408) return "timeout_error";
  return "invalid_request_error";
}

Response render_refusal(const Refusal& refusal) {
  const OrderedJson error = {{"message", refusal.message},
                             {"type", error_type(refusal.status)},
                             {"param", nullptr},
                             {"code", refusal.code}};
  // A message may quote a client's bytes, which need not be UTF-8: wrong bytes are replaced.
  Response response = json_response({{"error", error}}, refusal.status);
  response.headers.insert(response.headers.end(), refusal.headers.begin(), refusal.headers.end());
  return response;
}

}  // namespace lockstep::http
