// SPDX-License-Identifier: Apache-2.0
// How fields about single tokens are read: each is a row of the table in fields.cc.
#pragma once

#include "coordinator/openai/api_request.h"

namespace lockstep::openai {

absl::Status logprobs(const Field& field, const OrderedJson& value, ApiRequest* request);
// After what turns log-probabilities on.
absl::Status top_logprobs(const Field& field, const OrderedJson& value, ApiRequest* request);
absl::Status logprob_token_ids(const Field& field, const OrderedJson& value, ApiRequest* request);
absl::Status allowed_token_ids(const Field& field, const OrderedJson& value, ApiRequest* request);
absl::Status bad_words(const Field& field, const OrderedJson& value, ApiRequest* request);
absl::Status return_token_ids(const Field& field, const OrderedJson& value, ApiRequest* request);
absl::Status return_tokens_as_token_ids(const Field& field, const OrderedJson& value,
                                        ApiRequest* request);

// Turns log-probabilities of a response on.
absl::Status include(const Field& field, const OrderedJson& value, ApiRequest* request);

}  // namespace lockstep::openai
