// SPDX-License-Identifier: Apache-2.0
// From logits to a token: what the workers are asked for one row (an Output of the Step), and the
// use of their answers. A draw depends only on the row's logits, the parameters and (seed,
// position), not on how the vocabulary is sharded or how many candidates were sent.
//
// A row's logits are edited (repetition penalty, then presence and frequency penalties and bias),
// then divided by the temperature. Tokens are ordered by that value, ties by id. The first tokens
// of this order are kept, by three rules in the order of Hugging Face's logits warpers. (1) At most
// top_k tokens are kept. (2) A token is kept only if the better ones together have less than top_p
// of the probability of all tokens of rule 1. (3) A token is kept only if it has at least min_p of
// the best token's probability. The kept token with the largest sum of value and Gumbel noise wins:
// a draw from softmax over the kept tokens (Gumbel-max; Maddison et al., 2014).
//
// A given token, for instance of a prompt, is scored like a draw: an edit makes it win, so its rank
// sends its logit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/engine/engine_request.h"
#include "coordinator/streams/stream.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// How many of its best tokens each rank sends if top_p or min_p choose among them. If top_k is at
// most kTopKCandidates, each rank sends its best top_k tokens.
inline constexpr int32_t kCandidates = 64;
inline constexpr int32_t kTopKCandidates = 256;
// Lower temperatures are greedy: the quotient would leave the range of float.
inline constexpr float kMinTemperature = 1e-5f;

// The position of a draw, and the requested log-probabilities.
struct DrawPoint {
  uint64_t seed = 0;
  int64_t position = 0;   // The drawn token's position.
  int32_t logprobs = -1;  // See EngineRequest.
  std::span<const int32_t> logprob_ids = {};
};

// Whether candidates may leave a draw undecided: tokens are filtered, and more of them may be kept
// than are sent.
bool may_need_all_logits(const SamplingParams& params);

// The Output for a draw, without its row and edits. `candidates` is a parameter so that tests can
// show that it does not change the draw.
cluster::Output plan_output(const SamplingParams& params, const DrawPoint& point,
                            int32_t candidates = kCandidates);

struct Sampled {
  int32_t id = 0;
  // The chosen token, then the best or the named ones; empty if not requested.
  std::vector<Logprob> logprobs;
};

// One row's answers, in rank order; each covers a slice of the vocabulary.
using RankCandidates = std::vector<const cluster::Candidates*>;

// Draws a token from the candidates. `output` is the Output as sent, with edits and mask. Nullopt
// if the candidates do not decide the draw: then use the row's raw logits.
std::optional<Sampled> sample(const SamplingParams& params, const cluster::Output& output,
                              int32_t logprobs, const RankCandidates& ranks);
// The same draw, from the row's raw logits over the whole vocabulary. The output's shared edits are
// merged into its own (merge_shared_edits()). kDataLoss: no token can be drawn, because every logit
// is NaN, -inf or masked.
absl::StatusOr<Sampled> sample_from_logits(const SamplingParams& params,
                                           const cluster::Output& output, int32_t logprobs,
                                           const RankCandidates& ranks,
                                           const std::vector<float>& logits);

// plan_score() makes an Output that asks for the log-probability of `token` and of the `logprobs`
// best tokens (0 or more); the caller sets its row. score() reads the answer: the token, then the
// best. The bits equal those of a draw of this token.
cluster::Output plan_score(int32_t token, int32_t logprobs);
std::vector<Logprob> score(int32_t token, int32_t logprobs, const RankCandidates& ranks);

}  // namespace lockstep
