// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answer_bounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "coordinator/openai/error.h"

namespace lockstep::openai {
namespace {

// The max choices of one request. A queue accepts all of a request or nothing.
constexpr int64_t kMaxChoices = 4'096;
// The max number of log-probabilities in one answer. One takes kScoreBytes as text, and several
// hundred while its choice is written. The client gets the whole text at once, so the text must be
// smaller than the unread bytes that one key may have.
constexpr int64_t kMaxScores = 1 << 20;
// The max bytes of JSON of the log-probabilities in one answer: the texts of tokens may be long.
constexpr int64_t kMaxScoreBytes = 96 << 20;
// The max number of log-probabilities in a streamed response. Each of its last four events repeats
// all log-probabilities, is written in one piece, also for each client that resumes the stream, and
// stays in memory until the client reads it.
constexpr int64_t kMaxResponseScores = 1 << 15;
// The max bytes of prompts that one answer repeats. Twice as many are in memory for a moment.
constexpr int64_t kMaxRepeated = 64 << 20;

// The number of log-probabilities of one token of an answer.
int64_t scores_per_token(const EngineRequest& request) {
  return 1 + (request.logprob_ids.empty() ? request.logprobs : std::ssize(request.logprob_ids));
}

int64_t prompt_scores(const EngineRequest& request) {
  return std::ssize(request.prompt_ids) * (1 + request.prompt_logprobs);
}

}  // namespace

absl::Status check_choices(const ApiRequest& request) {
  const auto prompts = static_cast<int64_t>(request.prompts.size());
  const int64_t n = request.shared.has_n() ? request.shared.n() : 1;
  if (prompts * n <= kMaxChoices) return absl::OkStatus();
  return refusal(
      "prompt",
      fmt::format("must have at most {} choices in one request, found {} prompts times n = {}; "
                  "send fewer prompts at once, or a smaller n",
                  kMaxChoices, prompts, n));
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
  return refusal("max_output_tokens",
                 fmt::format("a streamed response with {} log-probabilities for each token must "
                             "have at most {} tokens, found {}; ask for fewer, or do not stream it",
                             scores_per_token(*request), max, request->max_tokens));
}

absl::Status RepeatCount::add(const ApiRequest& request, const EngineRequest& prompt,
                              int64_t prompt_bytes) {
  // A chat's answer has them once.
  const bool repeats_scores = prompt.prompt_logprobs >= 0 && request.endpoint == kCompletions;
  const int64_t lists = (request.echo ? 1 : 0) + (request.prompt_logprobs ? 1 : 0);
  bytes_ += request.n * prompt_bytes;
  if (repeats_scores) bytes_ += (request.n - 1) * lists * kScoreBytes * prompt_scores(prompt);
  if (bytes_ <= kMaxRepeated) return absl::OkStatus();
  const char* field = request.echo     ? "echo"
                      : repeats_scores ? "prompt_logprobs"
                                       : "return_token_ids";
  return refusal(field,
                 fmt::format("one answer must repeat at most {} bytes of prompts in its choices, "
                             "found more; set stream, or send fewer prompts or choices",
                             kMaxRepeated));
}

absl::Status ScoreCount::add(const ApiRequest& request, const EngineRequest& prompt,
                             int64_t context) {
  const auto tokens = std::ssize(prompt.prompt_ids);
  if (prompt.prompt_logprobs >= 0) of_prompts_ += prompt_scores(prompt) * request.n;
  if (of_prompts_ > kMaxScores) {
    return refusal(
        request.echo ? "echo" : "prompt_logprobs",
        fmt::format("one answer must have at most {} log-probabilities of prompts (tokens times "
                    "1 + logprobs, times n), found more; {}send fewer prompts at once",
                    kMaxScores, request.echo ? "stream it, or " : ""));
  }
  if (prompt.logprobs < 0 || prompt.max_tokens == kAllTokens) return absl::OkStatus();
  const int64_t room = std::clamp<int64_t>(context - tokens, 0, prompt.max_tokens);
  of_answers_ += prompt.n * room * scores_per_token(prompt);
  return check(of_answers_);
}

absl::Status ScoreCount::check(int64_t scores, int64_t bytes) {
  if (bytes > kMaxScoreBytes) {
    return refusal(
        "logprobs",
        fmt::format("the log-probabilities of one answer must be at most {} bytes, found "
                    "more; stream it, or ask for fewer",
                    kMaxScoreBytes));
  }
  if (scores <= kMaxScores) return absl::OkStatus();
  return refusal(
      "logprobs",
      fmt::format("one answer must have at most {} log-probabilities (choices times "
                  "max_tokens times 1 + logprobs), found {}; stream it, or ask for fewer",
                  kMaxScores, scores));
}

}  // namespace lockstep::openai
