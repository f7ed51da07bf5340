// SPDX-License-Identifier: Apache-2.0
#include "coordinator/sampling/nucleus.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/numbers/exact_exps.h"

namespace lockstep {
namespace {

// The relative distance from a bound within which rounding may decide: far above the error of a sum
// of a million doubles.
constexpr double kMargin = 1e-9;
constexpr size_t kOrdered = 64;  // If no more tokens are left to decide, they are sorted.

struct Weighted {
  ScoredToken token;
  double weight = 0;  // exp(edited - the best edited).
};

bool before(const Weighted& a, const Weighted& b) { return better(a.token, b.token); }

std::vector<Weighted> with_weights(std::span<const ScoredToken> tokens) {
  const double best = double{std::ranges::min_element(tokens, better)->edited};
  std::vector<double> weights(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const double edited = double{tokens[i].edited};
    weights[i] = edited == best ? 0 : edited - best;  // Also if both are infinite.
  }
  exact_exps(weights);
  std::vector<Weighted> weighted(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) weighted[i] = {tokens[i], weights[i]};
  return weighted;
}

double sum_of(std::span<const Weighted> tokens) {
  double sum = 0;
  for (const Weighted& token : tokens) sum += token.weight;
  return sum;
}

// Moves the kept tokens to the front, and returns their number. A token is kept if the sum of the
// better ones is below `allowed`. Nullopt: rounding may decide.
std::optional<size_t> select_below(double allowed, std::span<Weighted> tokens) {
  size_t begin = 0, end = tokens.size();  // Tokens [0, begin) are kept, those from `end` on not.
  double sum = 0;                         // Over tokens [0, begin).
  const auto is_close = [&](double bound) {
    return !(std::abs(bound - allowed) > kMargin * allowed);
  };
  while (end - begin > kOrdered) {
    const std::span<Weighted> open = tokens.subspan(begin, end - begin);
    const auto middle = open.begin() + static_cast<std::ptrdiff_t>(open.size() / 2);
    std::nth_element(open.begin(), middle, open.end(), before);
    const double half = sum + sum_of(open.first(open.size() / 2));
    if (is_close(half)) return std::nullopt;
    if (half < allowed) {
      sum = half;
      begin += open.size() / 2;
    } else {
      end = begin + open.size() / 2;
    }
  }
  const std::span<Weighted> last = tokens.subspan(begin, end - begin);
  std::sort(last.begin(), last.end(), before);
  for (const Weighted& token : last) {
    if (is_close(sum)) return std::nullopt;
    if (sum > allowed) break;
    sum += token.weight;
    ++begin;
  }
  return begin;
}

}  // namespace

std::optional<size_t> select_nucleus(const SamplingParams& params, double mass,
                                     std::vector<ScoredToken>* tokens) {
  size_t kept = tokens->size();
  const bool has_top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < kept;
  if (has_top_k) {
    kept = static_cast<size_t>(params.top_k);
    std::nth_element(tokens->begin(), tokens->begin() + params.top_k, tokens->end(), better);
  }
  if (kept == 0 || (params.top_p >= 1 && params.min_p <= 0)) return kept;
  std::vector<Weighted> weighted = with_weights(std::span(*tokens).first(kept));
  if (params.top_p < 1) {
    if (params.top_k > 0) mass = sum_of(weighted);
    const auto below = select_below(static_cast<double>(params.top_p) * mass, weighted);
    if (!below.has_value()) return std::nullopt;
    weighted.resize(*below);
  }
  const double min_p = double{params.min_p};
  const auto is_close = [&](const Weighted& token) {
    return std::abs(token.weight - min_p) <= kMargin * min_p;
  };
  if (min_p > 0 && std::ranges::any_of(weighted, is_close)) return std::nullopt;
  kept = 0;
  for (const Weighted& token : weighted) {
    if (token.weight >= min_p) (*tokens)[kept++] = token.token;
  }
  return kept;
}

}  // namespace lockstep
