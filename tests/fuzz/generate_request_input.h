// SPDX-License-Identifier: Apache-2.0
// Checks for any bytes that a caller may send to Generate, for the fuzzer and its unit test.
#pragma once

#include <google/protobuf/stubs/logging.h>

#include <string>

#include "base/check.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/api/limits.h"

namespace lockstep {

// Reads the bytes as the server does. Returns whether they are a request, which is then checked to
// be within the limits.
inline bool check_generate_request_input(const std::string& bytes, const Model& model) {
  const google::protobuf::LogSilencer silent;  // Most bytes are not a message.
  v1::GenerateRequest message;
  if (!message.ParseFromString(bytes)) return false;
  const absl::StatusOr<EngineRequest> request = to_request(message, model);
  if (!request.ok()) {
    LOCKSTEP_CHECK(request.status().message().find('\n') == absl::string_view::npos);
    return false;
  }
  LOCKSTEP_CHECK(check_limits(message).ok());
  LOCKSTEP_CHECK(!request->prompt_ids.empty());
  LOCKSTEP_CHECK(request->stop.size() <= 16 && request->id.size() <= 128);
  LOCKSTEP_CHECK(request->n >= 1 && request->n <= 128 && request->max_tokens >= 0);
  LOCKSTEP_CHECK(request->sampling.temperature >= 0 && request->sampling.logit_bias.size() <= 1024);
  return true;
}

}  // namespace lockstep
