// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/fields/field_readers.h"
#include "coordinator/openai/fields/values.h"

namespace lockstep::openai::read {

absl::Status logprobs(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (request->endpoint == kCompletions) {
    request->logprobs = true;
    return scalar(field, value, request);
  }
  ASSIGN_OR_RETURN(request->logprobs, as_bool(field.name, value));
  if (request->logprobs) request->shared.set_logprobs(0);
  return absl::OkStatus();
}

// A response has log-probabilities if `include` names them.
absl::Status top_logprobs(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (value == 0) return absl::OkStatus();
  const bool is_chat = request->endpoint == kChat;
  if (is_chat && !request->logprobs) {
    return refusal(field.name, "must be sent with \"logprobs\": true");
  }
  ASSIGN_OR_RETURN(const int32_t count, as_int32(field.name, value));
  if (count < 0 || count > 20) return wrong_value(field.name, "0 to 20", value);
  if (!request->logprobs) return absl::OkStatus();
  request->shared.set_logprobs(count);
  return absl::OkStatus();
}

absl::Status logprob_token_ids(const Field& field, const OrderedJson& value, ApiRequest* request) {
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, as_ids(field.name, value));
  if (ids.empty()) return absl::OkStatus();
  if (!request->logprobs) return refusal(field.name, "must be sent with logprobs");
  if (request->shared.has_max_tokens() && request->shared.max_tokens() == 0) {
    return refusal(field.name, "must be sent with max_tokens above 0, found 0");
  }
  request->shared.mutable_logprob_ids()->Add(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status allowed_token_ids(const Field& field, const OrderedJson& value, ApiRequest* request) {
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, as_ids(field.name, value));
  if (ids.empty()) return refusal(field.name, "must have at least one token id, found none");
  request->shared.mutable_allowed_ids()->Add(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status bad_words(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (!value.is_array()) return wrong_value(field.name, "a list of strings", value);
  for (const OrderedJson& word : value) {
    ASSIGN_OR_RETURN(*request->shared.add_bad_words(), as_string(field.name, word));
  }
  return absl::OkStatus();
}

absl::Status include(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (!value.is_array()) return wrong_value(field.name, "a list of strings", value);
  for (const OrderedJson& name : value) {
    if (name == "message.output_text.logprobs") request->logprobs = true;
  }
  if (request->logprobs) request->shared.set_logprobs(0);
  return absl::OkStatus();
}

}  // namespace lockstep::openai::read
