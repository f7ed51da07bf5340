// SPDX-License-Identifier: Apache-2.0
// From logits to a token: what the workers are asked for one row, and what follows from their
// answers. A draw depends on the row's logits, the parameters and (seed, position) alone: not on
// how the vocabulary is cut, nor on how many candidates were sent.
//
// A row's logits are edited (repetition penalty, then presence and frequency penalties and bias),
// then divided by the temperature. Tokens are ordered by that value, ties by id, and a beginning of
// that order is kept: at most top_k; then while the probability of the better ones, over what
// top_k kept, is below top_p; then while a token has at least min_p of the best one's probability
// (the order of Hugging Face's logits warpers). Of the kept ones the largest sum of value and
// Gumbel noise wins: a draw from softmax over them (Gumbel-max; Maddison et al., 2014).
//
// A token that is given, one of a prompt, is scored by the same rows: its edit makes it win, and so
// its rank sends its logit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/engine/request.h"
#include "coordinator/streams/stream.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// How many of its best tokens each rank sends where top_p or min_p choose among them. A top_k of
// up to kTopKCandidates is asked for whole.
inline constexpr int32_t kCandidates = 64;
inline constexpr int32_t kTopKCandidates = 256;
// Temperatures below are greedy: the quotient would leave the range of float.
inline constexpr float kMinTemperature = 1e-5f;

// Where a token is drawn, and what is wanted beside it.
struct DrawPoint {
  uint64_t seed = 0;
  int64_t position = 0;   // That the drawn token will take.
  int32_t logprobs = -1;  // As in Request.
  std::span<const int32_t> logprob_ids = {};
};

// Whether candidates may leave a draw undecided: tokens are filtered, and more are kept perhaps
// than candidates are sent.
bool may_need_all_logits(const SamplingParams& params);

// The question to the workers, but for its row and edits. `candidates` is a parameter so that
// tests can show that it does not matter.
cluster::Output plan_output(const SamplingParams& params, const DrawPoint& point,
                            int32_t candidates = kCandidates);

struct Sampled {
  int32_t id = 0;
  // The chosen token, then the best or those that were named; empty where not wanted.
  std::vector<Logprob> logprobs;
};

// One row's answers, a slice of the vocabulary each, in rank order.
using RankCandidates = std::vector<const cluster::Candidates*>;

// Draws a token from the candidates. `output` is the question as it was sent, edits and mask
// included. Nothing where the candidates don't settle the draw: then the row's raw logits decide.
std::optional<Sampled> sample(const SamplingParams& params, const cluster::Output& output,
                              int32_t logprobs, const RankCandidates& ranks);
// The same draw, from the row's raw logits over the whole vocabulary. kDataLoss: no token can be
// drawn, for every logit is NaN, -inf or masked.
absl::StatusOr<Sampled> sample_from_logits(const SamplingParams& params,
                                           const cluster::Output& output, int32_t logprobs,
                                           const RankCandidates& ranks,
                                           const std::vector<float>& logits);

// The question for the log-probability of `token` by one row, but for its number, and with how many
// of the best beside it (0 or more); then the answer: the token, then the best. The bits are those
// that a draw of this token has.
cluster::Output plan_score(int32_t token, int32_t logprobs);
std::vector<Logprob> score(int32_t token, int32_t logprobs, const RankCandidates& ranks);

}  // namespace lockstep
