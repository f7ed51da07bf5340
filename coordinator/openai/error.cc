// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/error.h"

#include "absl/strings/cord.h"
#include "base/field_error.h"
#include "base/status.h"
#include "coordinator/admission/admission.h"
#include "coordinator/http/refusal.h"

namespace lockstep::openai {
namespace {

constexpr char kParam[] = "lockstep/param";

struct Kind {
  absl::StatusCode status;
  int http;
  const char* code;  // Null: none.
};

constexpr Kind kKinds[] = {
    {absl::StatusCode::kInvalidArgument, 400, nullptr},
    {absl::StatusCode::kFailedPrecondition, 400, nullptr},
    {absl::StatusCode::kOutOfRange, 400, nullptr},
    {absl::StatusCode::kNotFound, 404, "model_not_found"},
    {absl::StatusCode::kAlreadyExists, 409, "request_id_in_use"},
    {absl::StatusCode::kDeadlineExceeded, 408, "deadline_exceeded"},
    {absl::StatusCode::kResourceExhausted, 429, "rate_limit_exceeded"},
    {absl::StatusCode::kUnavailable, 503, "service_unavailable"},
    {absl::StatusCode::kCancelled, 503, "service_unavailable"},
};
constexpr Kind kFault = {absl::StatusCode::kInternal, 500, "internal_error"};

const Kind& kind_of(const absl::Status& status) {
  for (const Kind& kind : kKinds) {
    if (kind.status == status.code()) return kind;
  }
  return kFault;
}

OrderedJson code_of(const absl::Status& status) {
  if (is_too_long(status)) return "context_length_exceeded";
  const char* code = kind_of(status).code;
  return code != nullptr ? OrderedJson(code) : OrderedJson();
}

}  // namespace

absl::Status with_param(absl::Status status, std::string_view param) {
  status.SetPayload(kParam, absl::Cord(std::string(param)));
  return status;
}

absl::Status refusal(std::string_view field, std::string_view text) {
  return with_param(field_error(field, "{}", text), field);
}

OrderedJson error_body(const absl::Status& status) {
  const absl::optional<absl::Cord> param = status.GetPayload(kParam);
  return {{"error",
           {{"message", message_of(status)},
            {"type", http::error_type(kind_of(status).http)},
            {"param", param.has_value() ? OrderedJson(std::string(*param)) : OrderedJson()},
            {"code", code_of(status)}}}};
}

http::Response error_response(const absl::Status& status) {
  http::Response response = http::json_response(error_body(status), kind_of(status).http);
  if (response.status == 429 || response.status == 503) {
    response.headers.emplace_back("Retry-After", std::to_string(retry_after_of(status)));
  }
  return response;
}

}  // namespace lockstep::openai
