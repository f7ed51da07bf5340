// SPDX-License-Identifier: Apache-2.0
// Checks for any body that a client may send, for the fuzzer and its unit test.
#pragma once

#include <string>

#include "base/check.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/openai/api_request.h"
#include "coordinator/openai/error.h"

namespace lockstep::openai {

// Reads the body as the server does. Returns whether it is a request. If not, checks that the error
// is the client's and has all its members.
inline bool check_openai_input(Endpoint endpoint, const std::string& body, const Model& model) {
  const auto check_error = [&](const absl::Status& status) {
    const http::Response response = error_response(status);
    LOCKSTEP_CHECK(response.status >= 400 && response.status < 500);
    const OrderedJson error = OrderedJson::parse(response.body).at("error");
    for (const char* key : {"message", "type", "param", "code"}) {
      LOCKSTEP_CHECK(error.contains(key));
    }
    LOCKSTEP_CHECK(error["message"].get<std::string>().find('\n') == std::string::npos);
  };
  const absl::StatusOr<ApiRequest> request = parse_request(endpoint, body, model);
  if (!request.ok()) {
    check_error(request.status());
    return false;
  }
  LOCKSTEP_CHECK(!request->prompts.empty());
  RequestBatch batch(request->shared, model);
  for (size_t prompt = 0; prompt < request->prompts.size(); ++prompt) {
    const absl::StatusOr<EngineRequest> one = batch.add(request->prompts[prompt]);
    if (one.ok()) continue;
    check_error(in_json_words(one.status(), *request));
    return false;
  }
  LOCKSTEP_CHECK(request->n >= 1 && request->n <= 128);
  return true;
}

}  // namespace lockstep::openai
