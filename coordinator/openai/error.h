// SPDX-License-Identifier: Apache-2.0
// Errors in the form of OpenAI's API: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/json.h"
#include "coordinator/http/json_response.h"

namespace lockstep::openai {

// Adds the name of the wrong JSON field, which becomes "param".
absl::Status with_param(absl::Status status, std::string_view param);
// kInvalidArgument: "<field>: <text>"; the field is the error's param.
absl::Status refusal(std::string_view field, std::string_view text);

// kInvalidArgument, kFailedPrecondition, kOutOfRange: 400 (context_length_exceeded if
// is_too_long()); kNotFound: 404 model_not_found; kAlreadyExists: 409; kDeadlineExceeded: 408;
// kResourceExhausted: 429; kUnavailable, kCancelled: 503; else 500. 429 and 503 have Retry-After.
http::Response error_response(const absl::Status& status);
// Only the body, for an event of a stream.
OrderedJson error_body(const absl::Status& status);

}  // namespace lockstep::openai
