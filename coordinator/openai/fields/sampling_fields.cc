// SPDX-License-Identifier: Apache-2.0
#include "base/first_names.h"
#include "base/status.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/fields/field_readers.h"
#include "coordinator/openai/fields/values.h"

namespace lockstep::openai::read {
namespace {

bool is_minus_one(const OrderedJson& value) {
  return value.is_number() && value.get<double>() == -1;
}

}  // namespace

absl::Status scalar(const Field& field, const OrderedJson& value, ApiRequest* request) {
  return set_scalar(field.name, value, field.grpc, &request->shared);
}

absl::Status scalar_or_off(const Field& field, const OrderedJson& value, ApiRequest* request) {
  return scalar(field, is_minus_one(value) ? OrderedJson(0) : value, request);
}

absl::Status scalar_or_all(const Field& field, const OrderedJson& value, ApiRequest* request) {
  return scalar(field, is_minus_one(value) ? OrderedJson(kAllTokens) : value, request);
}

absl::Status scalar_or_default(const Field& field, const OrderedJson& value, ApiRequest* request) {
  return is_minus_one(value) ? absl::OkStatus() : scalar(field, value, request);
}

absl::Status stop(const Field& field, const OrderedJson& value, ApiRequest* request) {
  const OrderedJson list = value.is_array() ? value : OrderedJson::array({value});
  for (const OrderedJson& one : list) {
    ASSIGN_OR_RETURN(*request->shared.add_stop(), as_string(field.name, one));
  }
  return absl::OkStatus();
}

absl::Status stop_token_ids(const Field& field, const OrderedJson& value, ApiRequest* request) {
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, as_ids(field.name, value));
  request->shared.mutable_stop_ids()->Add(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status logit_bias(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (!value.is_object()) return wrong_value(field.name, "an object of token ids", value);
  std::vector<std::string> wrong_keys;
  for (const auto& [key, bias] : value.items()) {
    const OrderedJson id = OrderedJson::parse(key, nullptr, /*allow_exceptions=*/false);
    if (!id.is_number_integer()) {
      wrong_keys.push_back(key);
      continue;
    }
    ASSIGN_OR_RETURN(const int32_t token, as_int32(field.name, id));
    ASSIGN_OR_RETURN((*request->shared.mutable_logit_bias())[token], as_float(field.name, bias));
  }
  if (wrong_keys.empty()) return absl::OkStatus();
  return refusal(field.name, "must have token ids as keys, found " + first_names(wrong_keys));
}

absl::Status best_of(const Field& field, const OrderedJson& value, ApiRequest* request) {
  v1::GenerateRequest& message = request->shared;
  ASSIGN_OR_RETURN(const int32_t count, as_int32(field.name, value));
  const int32_t n = message.has_n() ? message.n() : 1;
  if (n < 1) return wrong_value("n", "1 or more", OrderedJson(n));
  if (count < n)
    return refusal(field.name, fmt::format("must be n ({}) or more, found {}", n, count));
  if (count == n) return absl::OkStatus();
  if (request->stream) return refusal(field.name, "cannot choose among streamed answers");
  // The best answers are those whose tokens are likeliest: each token's log-probability is needed.
  if (!message.has_logprobs()) message.set_logprobs(0);
  message.set_n(count);
  request->n = n;
  return absl::OkStatus();
}

}  // namespace lockstep::openai::read
