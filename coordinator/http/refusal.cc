// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/refusal.h"

#include "coordinator/http/json_response.h"

namespace lockstep::http {

Response render_refusal(const Refusal& refusal) {
  const char* type = refusal.status >= 500 ? "server_error" : "invalid_request_error";
  const OrderedJson error = {
      {"message", refusal.message}, {"type", type}, {"param", nullptr}, {"code", refusal.code}};
  // A message may quote what a client sent, which need not be UTF-8: that is replaced.
  Response response = json_response({{"error", error}}, refusal.status);
  response.headers.insert(response.headers.end(), refusal.headers.begin(), refusal.headers.end());
  return response;
}

}  // namespace lockstep::http
