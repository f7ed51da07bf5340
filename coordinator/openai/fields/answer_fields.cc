// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/status.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/fields/field_readers.h"
#include "coordinator/openai/fields/values.h"

namespace lockstep::openai::read {
namespace {

// Reads a member of an object, if it is given; it must be true or false.
absl::Status set_flag(const char* field, const OrderedJson& object, const char* name, bool* flag) {
  const OrderedJson* found = member(object, name);
  if (found == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(*flag, as_bool(fmt::format("{}.{}", field, name), *found));
  return absl::OkStatus();
}

OrderedJson neutral_values(const Field& field) {
  if (*field.neutral == '\0') return {"", OrderedJson::array(), false};
  return OrderedJson::parse(fmt::format("[{}]", field.neutral));
}

}  // namespace

absl::Status parallel_tool_calls(const Field& field, const OrderedJson& value,
                                 ApiRequest* request) {
  ASSIGN_OR_RETURN(const bool parallel, as_bool(field.name, value));
  request->one_call = !parallel;
  return absl::OkStatus();
}

absl::Status resumable(const Field& field, const OrderedJson& value, ApiRequest* request) {
  ASSIGN_OR_RETURN(request->resumable, as_bool(field.name, value));
  if (!request->resumable) return absl::OkStatus();
  if (!request->stream) return refusal(field.name, "must be sent with \"stream\": true");
  const size_t prompts = request->prompts.size();
  if (prompts > 1)
    return refusal(field.name, fmt::format("must have one prompt, found {}", prompts));
  request->shared.set_resumable(true);
  return absl::OkStatus();
}

absl::Status stream_options(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (!value.is_object()) return wrong_value(field.name, "an object", value);
  if (!request->stream) return refusal(field.name, "must be sent with \"stream\": true");
  if (request->endpoint == kResponses) return absl::OkStatus();  // Usage is always included.
  RETURN_IF_ERROR(set_flag(field.name, value, "include_usage", &request->include_usage));
  return set_flag(field.name, value, "continuous_usage_stats", &request->continuous_usage);
}

absl::Status prompt_logprobs(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (request->stream) return refusal(field.name, "must not be sent with \"stream\": true");
  request->prompt_logprobs = true;
  return scalar(field, value, request);
}

// Read after prompt_logprobs: with echo, the prompt gets as many log-probabilities as the answer.
absl::Status echo(const Field& field, const OrderedJson& value, ApiRequest* request) {
  ASSIGN_OR_RETURN(request->echo, as_bool(field.name, value));
  if (!request->echo || !request->logprobs) return absl::OkStatus();
  v1::GenerateRequest& message = request->shared;
  if (request->prompt_logprobs && message.prompt_logprobs() != message.logprobs()) {
    return refusal("prompt_logprobs",
                   fmt::format("must be the same as logprobs ({}) with echo, found {}",
                               message.logprobs(), message.prompt_logprobs()));
  }
  message.set_prompt_logprobs(message.logprobs());
  return absl::OkStatus();
}

absl::Status text(const Field& field, const OrderedJson& value, ApiRequest*) {
  if (!value.is_object()) return wrong_value(field.name, "an object", value);
  const OrderedJson* format = member(value, "format");
  if (format != nullptr && *format != OrderedJson{{"type", "text"}}) {
    return refusal("text.format", kNoGrammar);
  }
  const OrderedJson* verbosity = member(value, "verbosity");
  if (verbosity == nullptr || *verbosity == "medium") return absl::OkStatus();
  return wrong_value("text.verbosity", "\"medium\": say in a message how long the answer should be",
                     *verbosity);
}

absl::Status model(const Field&, const OrderedJson&, ApiRequest*) { return absl::OkStatus(); }

absl::Status refused(const Field& field, const OrderedJson& value, ApiRequest*) {
  const OrderedJson neutral = neutral_values(field);
  const bool asks_nothing = std::ranges::find(neutral, value) != neutral.end();
  return asks_nothing ? absl::OkStatus() : refusal(field.name, field.note);
}

absl::Status harmless(const Field&, const OrderedJson&, ApiRequest*) { return absl::OkStatus(); }

}  // namespace lockstep::openai::read
