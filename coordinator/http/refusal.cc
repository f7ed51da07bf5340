// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/refusal.h"

#include "base/json.h"

namespace lockstep::http {

Response render_refusal(const Refusal& refusal) {
  const char* type = refusal.status >= 500 ? "server_error" : "invalid_request_error";
  const OrderedJson error = {
      {"message", refusal.message}, {"type", type}, {"param", nullptr}, {"code", refusal.code}};
  Response response{.status = refusal.status, .headers = refusal.headers};
  response.headers.emplace_back("Content-Type", "application/json");
  // A message may quote what a client sent, which need not be UTF-8.
  response.body =
      OrderedJson{{"error", error}}.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  return response;
}

}  // namespace lockstep::http
