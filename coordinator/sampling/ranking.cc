// SPDX-License-Identifier: Apache-2.0
// Orders the candidates of all ranks, or a row of logits; combines block sums to a log-sum-exp.
#include "coordinator/sampling/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/numbers/exact_exps.h"
#include "proto/block_sums.h"

namespace lockstep {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool drawable(float edited) { return edited > kNever; }  // False for NaN.

bool masked(const std::string& mask, int32_t id) {
  if (mask.empty()) return false;
  const size_t byte = static_cast<size_t>(id) / 8;
  return byte >= mask.size() || ((static_cast<unsigned char>(mask[byte]) >> (id % 8)) & 1) == 0;
}

float apply_edit(float logit, float repetition, float add) {
  const float penalised = logit > 0 ? logit / repetition : logit * repetition;
  return penalised + add;
}

// Merges tokens into an ordered list. A rank sends its tokens in order.
void merge_in(std::span<const ScoredToken> more, std::vector<ScoredToken>* tokens) {
  const auto middle = static_cast<std::ptrdiff_t>(tokens->size());
  tokens->insert(tokens->end(), more.begin(), more.end());
  const auto first = tokens->begin() + middle;
  const auto is_better = [](const ScoredToken& a, const ScoredToken& b) { return better(a, b); };
  if (!std::is_sorted(first, tokens->end(), is_better)) std::sort(first, tokens->end(), is_better);
  std::inplace_merge(tokens->begin(), first, tokens->end(), is_better);
}

}  // namespace

Ranking rank_candidates(const cluster::Output& output,
                        const std::vector<const cluster::Candidates*>& ranks) {
  Ranking ranking;
  bool bounded = false;
  ScoredToken bound;  // The best of the last tokens of ranks that may have more.
  for (const cluster::Candidates* rank : ranks) {
    const cluster::CandidateList& top = rank->top();
    bool more = top.ids_size() >= output.top_count();
    ScoredToken last;
    std::vector<ScoredToken> sent;
    sent.reserve(static_cast<size_t>(top.ids_size()));
    for (int i = 0; i < top.ids_size(); ++i) {
      if (!drawable(top.edited(i))) {
        more = false;  // Later tokens are no better.
        break;
      }
      last = {.id = top.ids(i), .logit = top.logits(i), .edited = top.edited(i)};
      sent.push_back(last);
    }
    merge_in(sent, &ranking.tokens);
    if (!more) continue;
    if (!bounded || better(last, bound)) bound = last;
    bounded = true;
  }
  ranking.complete = !bounded;
  ranking.known = ranking.tokens.size();
  if (bounded) {
    const auto end = std::upper_bound(ranking.tokens.begin(), ranking.tokens.end(), bound, better);
    ranking.known = bound.id < 0 ? 0 : static_cast<size_t>(end - ranking.tokens.begin());
  }
  return ranking;
}

Ranking rank_logits(const cluster::Output& output, const std::vector<float>& logits) {
  Ranking ranking;
  ranking.complete = true;
  ranking.tokens.reserve(logits.size());
  const cluster::LogitEdits& edits = output.edits();
  int next_edit = 0;
  for (size_t index = 0; index < logits.size(); ++index) {
    const int32_t id = static_cast<int32_t>(index);
    float edited = logits[index];
    if (next_edit < edits.ids_size() && edits.ids(next_edit) == id) {
      edited = apply_edit(edited, edits.repetition(next_edit), edits.add(next_edit));
      ++next_edit;
    }
    if (output.temperature() > 0) edited = edited / output.temperature();
    if (!drawable(edited) || masked(output.mask(), id)) continue;
    ranking.tokens.push_back({.id = id, .logit = logits[index], .edited = edited});
  }
  return ranking;
}

void extend_order(Ranking* ranking, size_t count) {
  count = std::min(count, ranking->tokens.size());
  if (count <= ranking->known) return;
  const auto begin = ranking->tokens.begin();
  const auto known = begin + static_cast<std::ptrdiff_t>(ranking->known);
  std::partial_sort(known, begin + static_cast<std::ptrdiff_t>(count), ranking->tokens.end(),
                    better);
  ranking->known = count;
}

Sums combine_sums(const std::vector<const cluster::Candidates*>& ranks, bool raw) {
  std::vector<const cluster::BlockSums*> of_ranks;
  of_ranks.reserve(ranks.size());
  for (const cluster::Candidates* rank : ranks) {
    of_ranks.push_back(raw ? &rank->raw_sums() : &rank->edited_sums());
  }
  const std::vector<BlockSum> runs = runs_of(of_ranks);
  Sums sums = {.max = -std::numeric_limits<double>::infinity(), .sum = 0};
  for (const BlockSum& run : runs) {
    if (run.max > sums.max) sums.max = run.max;
  }
  std::vector<double> weights(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) weights[i] = double{runs[i].max} - sums.max;
  exact_exps(weights);
  for (size_t i = 0; i < runs.size(); ++i) {
    const double weight = runs[i].max == sums.max ? 1.0 : weights[i];  // Also if both are infinite.
    const double part = weight * double{runs[i].sum};
    if (std::isfinite(part)) sums.sum += part;
  }
  return sums;
}

}  // namespace lockstep
