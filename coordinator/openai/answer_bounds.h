// SPDX-License-Identifier: Apache-2.0
// How much one request may ask for at once.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "coordinator/engine/request.h"
#include "coordinator/openai/api_request.h"

namespace lockstep::openai {

// kInvalidArgument: the prompts and their choices are more than any queue takes at once.
absl::Status check_choices(const ApiRequest& request);

// The log-probabilities of a streamed response, whose last events repeat them all. Where the
// request has no max_tokens, it gets the most that may have theirs. kInvalidArgument: it asks for
// more.
absl::Status bound_response(int64_t context, Request* request);

// The prompts that an answer made whole in memory repeats: each choice has its prompt's text (echo)
// and ids (return_token_ids).
class RepeatCount {
 public:
  // Before anything is computed. `prompt_bytes`: in one choice, as JSON. kInvalidArgument: the
  // answer would be too large.
  absl::Status add(const ApiRequest& request, int64_t prompt_bytes);

 private:
  int64_t bytes_ = 0;
};

// The log-probabilities of an answer that is made whole in memory. Errors are kInvalidArgument.
class ScoreCount {
 public:
  // Before anything is computed: those of one more of the request's prompts, and of its answers.
  // Answers that may go on to the end of the context, as none does, count while they are gathered.
  absl::Status add(const ApiRequest& request, const Request& prompt, int64_t context);
  // The answers' number, while they come.
  static absl::Status check(int64_t scores);

 private:
  int64_t of_prompts_ = 0;
  int64_t of_answers_ = 0;
};

}  // namespace lockstep::openai
