// SPDX-License-Identifier: Apache-2.0
// Candidates of all ranks, or a row of logits, as one ordered list; block sums as one log-sum-exp.
#include "coordinator/sampling/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"

namespace lockstep {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool drawable(float edited) { return edited > kNever; }  // False for NaN.

bool masked(const std::string& mask, int32_t id) {
  if (mask.empty()) return false;
  const size_t byte = static_cast<size_t>(id) / 8;
  return byte >= mask.size() || ((static_cast<unsigned char>(mask[byte]) >> (id % 8)) & 1) == 0;
}

float apply_edit(float logit, const cluster::LogitEdit& edit) {
  const float repetition = edit.repetition() == 0 ? 1.0f : edit.repetition();
  const float penalised = logit > 0 ? logit / repetition : logit * repetition;
  return penalised + edit.add();
}

}  // namespace

Ranking rank_candidates(const cluster::Output& output,
                        const std::vector<const cluster::Candidates*>& ranks) {
  Ranking ranking;
  bool bounded = false;
  ScoredToken bound;  // The best of the last tokens of ranks that may have more.
  for (const cluster::Candidates* rank : ranks) {
    bool more = rank->top_size() >= output.top_count();
    ScoredToken last;
    for (const cluster::Candidate& candidate : rank->top()) {
      if (!drawable(candidate.edited())) {
        more = false;  // All that follow are no better.
        break;
      }
      last = {.id = candidate.id(), .logit = candidate.logit(), .edited = candidate.edited()};
      ranking.tokens.push_back(last);
    }
    if (!more) continue;
    if (!bounded || better(last, bound)) bound = last;
    bounded = true;
  }
  std::sort(ranking.tokens.begin(), ranking.tokens.end(), better);
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
  int next_edit = 0;
  for (size_t index = 0; index < logits.size(); ++index) {
    const int32_t id = static_cast<int32_t>(index);
    float edited = logits[index];
    if (next_edit < output.edits_size() && output.edits(next_edit).id() == id) {
      edited = apply_edit(edited, output.edits(next_edit++));
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
  Sums sums = {.max = -std::numeric_limits<double>::infinity(), .sum = 0};
  for (const cluster::Candidates* rank : ranks) {
    for (const float max : raw ? rank->raw_max() : rank->edited_max()) {
      if (max > sums.max) sums.max = max;
    }
  }
  for (const cluster::Candidates* rank : ranks) {
    const auto& block_max = raw ? rank->raw_max() : rank->edited_max();
    const auto& block_sum = raw ? rank->raw_sum() : rank->edited_sum();
    for (int block = 0; block < std::min(block_max.size(), block_sum.size()); ++block) {
      const double max = block_max[block];
      const double weight = max == sums.max ? 1.0 : exact_exp(max - sums.max);
      const double sum = weight * block_sum[block];
      if (std::isfinite(sum)) sums.sum += sum;
    }
  }
  return sums;
}

}  // namespace lockstep
