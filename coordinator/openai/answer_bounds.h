// SPDX-License-Identifier: Apache-2.0
// Limits on what one request may ask for.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "coordinator/engine/engine_request.h"
#include "coordinator/openai/api_request.h"

namespace lockstep::openai {

// kInvalidArgument: the prompts and their choices are more than any queue accepts at once.
absl::Status check_choices(const ApiRequest& request);

// Limits the log-probabilities of a streamed response, whose last events repeat them all. A request
// without max_tokens gets the max number of tokens that stays within the limit. kInvalidArgument:
// the request asks for more.
absl::Status bound_response(int64_t context, EngineRequest* request);

// Counts the bytes of prompts in an answer that is built whole in memory. Each choice repeats its
// prompt's text (echo), ids (return_token_ids) and log-probabilities.
class RepeatCount {
 public:
  // Adds one more prompt of the request, before anything is computed. `prompt_bytes`: the bytes of
  // JSON that the prompt's text and ids take in one choice. Its log-probabilities are counted for
  // every choice except the first, which ScoreCount counts. kInvalidArgument: the answer would be
  // too large.
  absl::Status add(const ApiRequest& request, const EngineRequest& prompt, int64_t prompt_bytes);

 private:
  int64_t bytes_ = 0;
};

// The approximate bytes of a log-probability in an answer.
inline constexpr int64_t kScoreBytes = 100;

// Counts the log-probabilities of an answer that is built whole in memory. Errors are
// kInvalidArgument.
class ScoreCount {
 public:
  // Adds the log-probabilities of one more prompt of the request and of its answers, before
  // anything is computed. Answers of a request without max_tokens are not added, since they rarely
  // fill the context. Call check() while the answers are gathered.
  absl::Status add(const ApiRequest& request, const EngineRequest& prompt, int64_t context);
  // Checks the number in the answers gathered so far, and the bytes of JSON that they take: texts
  // of tokens may be long.
  static absl::Status check(int64_t scores, int64_t bytes = 0);

 private:
  int64_t of_prompts_ = 0;
  int64_t of_answers_ = 0;
};

}  // namespace lockstep::openai
