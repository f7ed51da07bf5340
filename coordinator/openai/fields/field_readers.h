// SPDX-License-Identifier: Apache-2.0
// The functions that read the fields of the table.
#pragma once

#include "absl/status/status.h"
#include "base/status.h"
#include "coordinator/openai/fields/field_table.h"
#include "coordinator/openai/fields/values.h"

namespace lockstep::openai::read {

// The error of fields that ask for output of a certain form.
inline constexpr char kNoGrammar[] = "this server does not constrain output to a grammar yet";

#define LOCKSTEP_FIELD_READER(name) \
  absl::Status name(const Field& field, const OrderedJson& value, ApiRequest* request)

// Reads true or false into a member of ApiRequest.
template <bool ApiRequest::*kMember>
LOCKSTEP_FIELD_READER(flag) {
  ASSIGN_OR_RETURN(request->*kMember, as_bool(field.name, value));
  return absl::OkStatus();
}

// sampling_fields.cc: fields that are the same, or nearly, in GenerateRequest.
LOCKSTEP_FIELD_READER(scalar);
LOCKSTEP_FIELD_READER(scalar_or_off);      // -1 means 0.
LOCKSTEP_FIELD_READER(scalar_or_all);      // -1 means no limit.
LOCKSTEP_FIELD_READER(scalar_or_default);  // -1 means that the field is not given.
LOCKSTEP_FIELD_READER(stop);
LOCKSTEP_FIELD_READER(stop_token_ids);
LOCKSTEP_FIELD_READER(logit_bias);
LOCKSTEP_FIELD_READER(best_of);

// token_fields.cc: single tokens and their log-probabilities.
LOCKSTEP_FIELD_READER(logprobs);
LOCKSTEP_FIELD_READER(include);       // Turns on log-probabilities of a response.
LOCKSTEP_FIELD_READER(top_logprobs);  // Read after the field that turns log-probabilities on.
LOCKSTEP_FIELD_READER(logprob_token_ids);
LOCKSTEP_FIELD_READER(allowed_token_ids);
LOCKSTEP_FIELD_READER(bad_words);

// message_fields.cc: prompts and conversations.
LOCKSTEP_FIELD_READER(prompt);
LOCKSTEP_FIELD_READER(tokens);
LOCKSTEP_FIELD_READER(messages);
LOCKSTEP_FIELD_READER(input);
LOCKSTEP_FIELD_READER(instructions);
LOCKSTEP_FIELD_READER(tools);
LOCKSTEP_FIELD_READER(tool_choice);
LOCKSTEP_FIELD_READER(documents);
LOCKSTEP_FIELD_READER(add_generation_prompt);
LOCKSTEP_FIELD_READER(continue_final_message);
LOCKSTEP_FIELD_READER(chat_template_kwargs);
LOCKSTEP_FIELD_READER(effort);

// answer_fields.cc: the answer's form.
LOCKSTEP_FIELD_READER(parallel_tool_calls);
LOCKSTEP_FIELD_READER(resumable);
LOCKSTEP_FIELD_READER(stream_options);
LOCKSTEP_FIELD_READER(prompt_logprobs);
LOCKSTEP_FIELD_READER(echo);
LOCKSTEP_FIELD_READER(text);
LOCKSTEP_FIELD_READER(model);  // Does nothing: parse_body() has checked it.
LOCKSTEP_FIELD_READER(refused);
LOCKSTEP_FIELD_READER(harmless);

#undef LOCKSTEP_FIELD_READER

}  // namespace lockstep::openai::read
