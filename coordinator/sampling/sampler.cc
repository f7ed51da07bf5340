// SPDX-License-Identifier: Apache-2.0
// A draw goes through the tokens in order, finds the end of the kept ones, and takes the noisiest
// of them.
#include "coordinator/sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "base/check.h"
#include "base/numbers/math.h"
#include "base/status.h"
#include "coordinator/sampling/nucleus.h"
#include "coordinator/sampling/ranking.h"
#include "proto/logit_edits.h"

namespace lockstep {
namespace {

// How many logits are sorted first: few nuclei are larger.
constexpr size_t kFirstOrdered = 1024;

bool filters(const SamplingParams& params) {
  return params.top_k > 0 || params.top_p < 1 || params.min_p > 0;
}

double weight_of(const ScoredToken& token, const ScoredToken& best) {
  if (token.edited == best.edited) return 1;  // Also if both are infinite.
  return exact_exp(static_cast<double>(token.edited) - static_cast<double>(best.edited));
}

float noisy_of(const ScoredToken& token, const cluster::Output& output) {
  return token.edited + gumbel_noise(output.seed(), output.position(), token.id);
}

// Whether a token's noisy value may reach `wanted`, by a bound that costs a fraction of the noise.
// The noise uses u in (0, 1): -log(-log u) <= -log(1 - u), and the upper 32 bits of u bound 1 - u
// from below. Float rounding is far below the margin.
bool may_reach(const ScoredToken& token, const cluster::Output& output, float wanted) {
  constexpr double kLn2 = 0.6931471805599454;  // Rounded up.
  uint32_t low = 0;
  const uint32_t rest = ~gumbel_bits(output.seed(), output.position(), token.id, &low);
  const int halvings = rest > 0 ? std::countl_zero(rest) + 1 : 53;
  const double edited = token.edited;
  const double margin = 1e-4 + 1e-6 * std::abs(edited);
  return !(edited + halvings * kLn2 + margin < static_cast<double>(wanted));
}

// The token with the largest noisy value, or for a greedy draw the largest value, among those
// offered in any order. Ties: the lower id wins. The tokens and the output outlive this object.
class NoisyArgmax {
 public:
  explicit NoisyArgmax(const cluster::Output& output)
      : output_(output), greedy_(output.temperature() == 0) {}

  void offer(const ScoredToken& token) {
    if (winner_ != nullptr && !greedy_ && !may_reach(token, output_, max_)) return;
    const float value = greedy_ ? token.edited : noisy_of(token, output_);
    if (winner_ == nullptr || value > max_ || (value == max_ && token.id < winner_->id)) {
      winner_ = &token;
      max_ = value;
    }
  }
  // At least one token was offered.
  const ScoredToken& winner() const { return *winner_; }

 private:
  const cluster::Output& output_;
  const bool greedy_;
  const ScoredToken* winner_ = nullptr;
  float max_ = 0;
};

// The noisiest token of the whole vocabulary: the best of the ranks' noisiest tokens.
std::optional<ScoredToken> noisy_argmax(const RankCandidates& ranks) {
  const cluster::Candidate* best = nullptr;
  for (const cluster::Candidates* rank : ranks) {
    if (!rank->has_noisy()) continue;
    const cluster::Candidate& candidate = rank->noisy();
    if (candidate.id() < 0 || !(candidate.noisy() > -std::numeric_limits<float>::infinity())) {
      continue;
    }
    // Ranks are in order of ids, so the lower id wins a tie.
    if (best == nullptr || candidate.noisy() > best->noisy()) best = &candidate;
  }
  if (best == nullptr) return std::nullopt;
  return ScoredToken{.id = best->id(), .logit = best->logit(), .edited = best->edited()};
}

// The sum of all tokens' probabilities, relative to the best one's.
double mass_of_all(const ScoredToken& best, const RankCandidates& ranks) {
  const Sums sums = combine_sums(ranks, /*raw=*/false);
  const double mass = sums.sum * exact_exp(sums.max - static_cast<double>(best.edited));
  return std::isfinite(mass) ? mass : 1.0;
}

// The sum to which top_p applies: over all tokens or, with top_k, over those that it keeps.
// Nullopt: the known order is too short.
std::optional<double> mass_below_top_p(const SamplingParams& params, const Ranking& ranking,
                                       const RankCandidates& ranks) {
  const ScoredToken& best = ranking.tokens.front();
  if (params.top_k == 0) return mass_of_all(best, ranks);
  const size_t kept = static_cast<size_t>(params.top_k);
  const bool all = ranking.complete && ranking.known == ranking.tokens.size();
  if (ranking.known < kept && !all) return std::nullopt;
  double mass = 0;
  for (size_t i = 0; i < std::min(kept, ranking.known); ++i) {
    mass += weight_of(ranking.tokens[i], best);
  }
  return mass;
}

// The winner among the kept tokens; nullopt if the known part of the order does not show their end.
// `overall` is the winner if all were kept.
std::optional<ScoredToken> decide(const SamplingParams& params, const cluster::Output& output,
                                  const Ranking& ranking, const RankCandidates& ranks,
                                  const std::optional<ScoredToken>& overall) {
  if (ranking.known == 0) return std::nullopt;
  double allowed = std::numeric_limits<double>::infinity();
  if (params.top_p < 1) {
    const std::optional<double> mass = mass_below_top_p(params, ranking, ranks);
    if (!mass.has_value()) return std::nullopt;
    allowed = static_cast<double>(params.top_p) * *mass;
  }
  const size_t limit =
      params.top_k > 0 ? static_cast<size_t>(params.top_k) : std::numeric_limits<size_t>::max();
  NoisyArgmax drawn(output);
  double better_ones = 0;
  for (size_t i = 0; i < ranking.known && i < limit; ++i) {
    const ScoredToken& token = ranking.tokens[i];
    const double weight = weight_of(token, ranking.tokens.front());
    if (i > 0 && (better_ones >= allowed || weight < params.min_p)) return drawn.winner();
    better_ones += weight;
    drawn.offer(token);
  }
  const bool all = ranking.complete && ranking.known == ranking.tokens.size();
  if (all || ranking.known >= limit) return drawn.winner();
  // Unknown tokens cannot beat the overall winner: if that one is kept, it is drawn.
  if (overall.has_value() && overall->id == drawn.winner().id) return drawn.winner();
  return std::nullopt;
}

ScoredToken noisy_argmax_of(std::span<const ScoredToken> tokens, const cluster::Output& output) {
  NoisyArgmax drawn(output);
  for (const ScoredToken& token : tokens) drawn.offer(token);
  return drawn.winner();
}

std::optional<ScoredToken> decide_from_logits(const SamplingParams& params,
                                              const cluster::Output& output,
                                              const std::vector<float>& logits,
                                              const RankCandidates& ranks) {
  Ranking ranking = rank_logits(output, logits);
  std::vector<ScoredToken>& tokens = ranking.tokens;
  if (tokens.empty()) return std::nullopt;
  if (output.temperature() == 0 || !filters(params)) return noisy_argmax_of(tokens, output);
  const double mass = mass_of_all(*std::ranges::min_element(tokens, better), ranks);
  if (const std::optional<size_t> kept = select_nucleus(params, mass, &tokens); kept.has_value()) {
    return noisy_argmax_of(std::span(tokens).first(*kept), output);
  }
  const std::optional<ScoredToken> overall = noisy_argmax(ranks);
  for (size_t ordered = kFirstOrdered;; ordered *= 16) {
    extend_order(&ranking, ordered);
    const std::optional<ScoredToken> winner = decide(params, output, ranking, ranks, overall);
    if (winner.has_value()) return winner;
    LOCKSTEP_CHECK(ranking.known < tokens.size());
  }
}

// The `count` best by raw logit, in order.
std::vector<ScoredToken> best_of(int32_t count, const RankCandidates& ranks) {
  std::vector<ScoredToken> best;
  for (const cluster::Candidates* rank : ranks) {
    const cluster::CandidateList& top = rank->raw_top();
    for (int i = 0; i < top.ids_size(); ++i) {
      best.push_back({.id = top.ids(i), .edited = top.logits(i)});
    }
  }
  std::erase_if(best, [](const ScoredToken& token) { return std::isnan(token.edited); });
  std::sort(best.begin(), best.end(), better);
  best.resize(std::min(best.size(), static_cast<size_t>(count)));
  return best;
}

// The tokens that the output names, each from the rank that has it.
std::vector<ScoredToken> named_of(const cluster::Output& output, const RankCandidates& ranks) {
  std::map<int32_t, float> logits;
  for (const cluster::Candidates* rank : ranks) {
    const cluster::CandidateList& named = rank->raw_logits();
    for (int i = 0; i < named.ids_size(); ++i) logits[named.ids(i)] = named.logits(i);
  }
  std::vector<ScoredToken> tokens;
  for (const int32_t id : output.raw_ids()) {
    const auto found = logits.find(id);
    tokens.push_back({.id = id,
                      .edited = found == logits.end() ? -std::numeric_limits<float>::infinity()
                                                      : found->second});
  }
  return tokens;
}

std::vector<Logprob> logprobs_of(const ScoredToken& chosen, const cluster::Output& output,
                                 int32_t count, const RankCandidates& ranks) {
  std::vector<Logprob> logprobs;
  if (count < 0) return logprobs;
  const Sums sums = combine_sums(ranks, /*raw=*/true);
  const double log_sum = sums.max + exact_log(sums.sum);
  const auto add = [&](int32_t id, float logit) {
    const double logprob = static_cast<double>(logit) - log_sum;
    logprobs.push_back({.id = id,
                        .logprob = std::isnan(logprob) ? -std::numeric_limits<float>::infinity()
                                                       : static_cast<float>(logprob)});
  };
  add(chosen.id, chosen.logit);
  const auto others = output.raw_ids().empty() ? best_of(count, ranks) : named_of(output, ranks);
  for (const ScoredToken& token : others) add(token.id, token.edited);
  return logprobs;
}

}  // namespace

bool may_need_all_logits(const SamplingParams& params) {
  const bool whole = params.top_k > 0 && params.top_k <= kTopKCandidates;
  return params.temperature >= kMinTemperature && filters(params) && !whole;
}

cluster::Output plan_output(const SamplingParams& params, const DrawPoint& point,
                            int32_t candidates) {
  cluster::Output output;
  output.set_seed(point.seed);
  output.set_position(point.position);
  const bool greedy = !(params.temperature >= kMinTemperature);
  output.set_temperature(greedy ? 0 : params.temperature);
  if (greedy || !filters(params)) {
    output.set_want_noisy(true);  // At temperature 0 the noise is 0.
  } else {
    const bool whole = params.top_k > 0 && params.top_k <= kTopKCandidates;
    output.set_top_count(whole ? params.top_k : candidates);
    output.set_want_noisy(!whole);
    output.set_want_edited_sums(params.top_p < 1 && params.top_k == 0);
  }
  if (point.logprobs >= 0) {
    output.set_want_raw_sums(true);
    if (point.logprob_ids.empty()) output.set_raw_top_count(point.logprobs);
    output.mutable_raw_ids()->Add(point.logprob_ids.begin(), point.logprob_ids.end());
  }
  return output;
}

std::optional<Sampled> sample(const SamplingParams& params, const cluster::Output& output,
                              int32_t logprobs, const RankCandidates& ranks) {
  std::optional<ScoredToken> winner = noisy_argmax(ranks);
  if (output.temperature() != 0 && filters(params)) {
    winner = decide(params, output, rank_candidates(output, ranks), ranks, winner);
  }
  if (!winner.has_value()) return std::nullopt;
  return Sampled{.id = winner->id, .logprobs = logprobs_of(*winner, output, logprobs, ranks)};
}

absl::StatusOr<Sampled> sample_from_logits(const SamplingParams& params,
                                           const cluster::Output& output, int32_t logprobs,
                                           const RankCandidates& ranks,
                                           const std::vector<float>& logits) {
  const std::optional<ScoredToken> winner = decide_from_logits(params, output, logits, ranks);
  if (!winner.has_value()) {
    return absl::DataLossError(fmt::format(
        "position {}: no token can be drawn: must have a logit that is a number, found only "
        "NaN, -inf or masked ones; do the weights have NaN or inf? fetch the checkpoint again",
        output.position()));
  }
  return Sampled{.id = winner->id, .logprobs = logprobs_of(*winner, output, logprobs, ranks)};
}

cluster::Output plan_score(int32_t token, int32_t logprobs) {
  cluster::Output output;
  output.set_want_noisy(true);
  output.set_want_raw_sums(true);
  output.set_raw_top_count(logprobs);
  add_edit(token, 1, std::numeric_limits<float>::infinity(), output.mutable_edits());
  return output;
}

std::vector<Logprob> score(int32_t token, int32_t logprobs, const RankCandidates& ranks) {
  // No rank sends a logit that is NaN or -inf: the probability is 0.
  ScoredToken scored = {.id = token, .logit = -std::numeric_limits<float>::infinity()};
  for (const cluster::Candidates* rank : ranks) {
    if (rank->has_noisy() && rank->noisy().id() == token) scored.logit = rank->noisy().logit();
  }
  return logprobs_of(scored, cluster::Output(), logprobs, ranks);
}

}  // namespace lockstep
