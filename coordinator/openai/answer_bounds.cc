// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answer_bounds.h"

#include <algorithm>

#include "base/status.h"
#include "coordinator/openai/error.h"

namespace lockstep::openai {
namespace {

// A request is taken as one: no queue has room for part of it.
constexpr int64_t kMaxChoices = 4'096;
// About a hundred bytes each as text, which a client takes as one: less than may wait to be read of
// one key. While a choice is written, several hundred.
constexpr int64_t kMaxScores = 1 << 20;

}  // namespace

absl::Status check_choices(const ApiRequest& request) {
  const auto prompts = static_cast<int64_t>(request.prompts.size());
  const int64_t n = request.shared.has_n() ? request.shared.n() : 1;
  if (prompts * n <= kMaxChoices) return absl::OkStatus();
  return with_param(invalid_argument("prompt: want at most {} choices of one request, found {} "
                                     "prompts of {}",
                                     kMaxChoices, prompts, n),
                    "prompt");
}

absl::Status ScoreCount::add(const ApiRequest& request, const Request& prompt, int64_t context) {
  const auto tokens = std::ssize(prompt.prompt_ids);
  if (prompt.prompt_logprobs >= 0) of_prompts_ += tokens * (1 + prompt.prompt_logprobs) * request.n;
  if (of_prompts_ > kMaxScores) {
    const char* field = request.echo ? "echo" : "prompt_logprobs";
    return with_param(
        invalid_argument("{}: want up to {} log-probabilities of prompts in one answer (for each "
                         "token 1 + logprobs, n times), found more; stream it (echo), or send "
                         "fewer prompts at once",
                         field, kMaxScores),
        field);
  }
  if (prompt.logprobs < 0 || prompt.max_tokens == kAllTokens) return absl::OkStatus();
  const int64_t room = std::clamp<int64_t>(context - tokens, 0, prompt.max_tokens);
  const int64_t others =
      prompt.logprob_ids.empty() ? prompt.logprobs : std::ssize(prompt.logprob_ids);
  of_answers_ += prompt.n * room * (1 + others);
  return check(of_answers_);
}

absl::Status ScoreCount::check(int64_t scores) {
  if (scores <= kMaxScores) return absl::OkStatus();
  return with_param(
      invalid_argument("logprobs: one answer must have at most {} log-probabilities (choices times "
                       "max_tokens times 1 + logprobs), found {}; stream it, or ask for fewer",
                       kMaxScores, scores),
      "logprobs");
}

}  // namespace lockstep::openai
