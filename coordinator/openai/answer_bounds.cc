// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answer_bounds.h"

#include <algorithm>

#include "base/field_error.h"
#include "base/status.h"
#include "coordinator/openai/error.h"

namespace lockstep::openai {
namespace {

// A request is accepted as a whole: no queue accepts a part of it.
constexpr int64_t kMaxChoices = 4'096;
// Each takes about 100 bytes as text, and the client gets the whole text at once: this is less than
// the unread bytes that one key may have. While a choice is written, each takes several hundred.
constexpr int64_t kMaxScores = 1 << 20;
// Each of the last four events repeats all of them, and waits to be read with other streams'
// events.
constexpr int64_t kMaxResponseScores = 1 << 17;

// The number of log-probabilities of one token of an answer.
int64_t scores_per_token(const EngineRequest& request) {
  return 1 + (request.logprob_ids.empty() ? request.logprobs : std::ssize(request.logprob_ids));
}

}  // namespace

absl::Status check_choices(const ApiRequest& request) {
  const auto prompts = static_cast<int64_t>(request.prompts.size());
  const int64_t n = request.shared.has_n() ? request.shared.n() : 1;
  if (prompts * n <= kMaxChoices) return absl::OkStatus();
  return with_param(
      field_error("prompt", "must have at most {} choices in one request, found {} prompts of {}",
                  kMaxChoices, prompts, n),
      "prompt");
}

absl::Status bound_response(int64_t context, EngineRequest* request) {
  if (request->logprobs < 0) return absl::OkStatus();
  const int64_t max = kMaxResponseScores / scores_per_token(*request);
  const int64_t room = context - std::ssize(request->prompt_ids);
  if (std::min<int64_t>(room, request->max_tokens) <= max) return absl::OkStatus();
  if (request->max_tokens == kAllTokens) {
    request->max_tokens = static_cast<int32_t>(max);
    return absl::OkStatus();
  }
  return with_param(
      invalid_argument("max_output_tokens: a streamed response with {} log-probabilities for each "
                       "token must have at most {} tokens, found {}; ask for fewer, or do not "
                       "stream it",
                       scores_per_token(*request), max, request->max_tokens),
      "max_output_tokens");
}

absl::Status ScoreCount::add(const ApiRequest& request, const EngineRequest& prompt,
                             int64_t context) {
  const auto tokens = std::ssize(prompt.prompt_ids);
  if (prompt.prompt_logprobs >= 0) of_prompts_ += tokens * (1 + prompt.prompt_logprobs) * request.n;
  if (of_prompts_ > kMaxScores) {
    const char* field = request.echo ? "echo" : "prompt_logprobs";
    return with_param(
        field_error(field,
                    "must be up to {} log-probabilities of prompts in one answer (for each token "
                    "1 + logprobs, n times), found more; stream it (echo), or send fewer prompts "
                    "at once",
                    kMaxScores),
        field);
  }
  if (prompt.logprobs < 0 || prompt.max_tokens == kAllTokens) return absl::OkStatus();
  const int64_t room = std::clamp<int64_t>(context - tokens, 0, prompt.max_tokens);
  of_answers_ += prompt.n * room * scores_per_token(prompt);
  return check(of_answers_);
}

absl::Status ScoreCount::check(int64_t scores) {
  if (scores <= kMaxScores) return absl::OkStatus();
  return with_param(
      field_error("logprobs",
                  "one answer must have at most {} log-probabilities (choices times "
                  "max_tokens times 1 + logprobs), found {}; stream it, or ask for fewer",
                  kMaxScores, scores),
      "logprobs");
}

}  // namespace lockstep::openai
