// SPDX-License-Identifier: Apache-2.0
// The vocabulary in order of edited logit, as far as it is known: a beginning of the order from the
// ranks' candidates, or all of it from a row's logits. Both are the same list cut at another
// place, which is why a draw can be decided on either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/cluster.pb.h"

namespace lockstep {

struct ScoredToken {
  int32_t id = -1;
  float logit = 0;   // The model's own.
  float edited = 0;  // After edits and temperature; never NaN or -inf.
};

// Better first: larger `edited`, then the lower id.
inline bool better(const ScoredToken& a, const ScoredToken& b) {
  return a.edited > b.edited || (a.edited == b.edited && a.id < b.id);
}

// tokens[0, known) are the best of the vocabulary in order. Complete: there are no others that may
// be drawn.
struct Ranking {
  std::vector<ScoredToken> tokens;
  size_t known = 0;
  bool complete = false;
};

// Merges what each rank sent. A rank that sent all it was asked for may have more, so that the
// order is known only up to the worst last token among such ranks.
Ranking rank_candidates(const cluster::Output& output,
                        const std::vector<const cluster::Candidates*>& ranks);

// Every token that may be drawn, unordered (known == 0) until extend_order() is called. The
// arithmetic is top_candidates' own, operation by operation.
Ranking rank_logits(const cluster::Output& output, const std::vector<float>& logits);

// Orders at least the first `count` tokens.
void extend_order(Ranking* ranking, size_t count);

// sum of exp(x - max) over all tokens, group of blocks by group (proto/block_sums.h). Groups
// without a finite sum add nothing.
struct Sums {
  double max = 0;  // -inf: there is none.
  double sum = 0;  // Relative to max.
};
Sums combine_sums(const std::vector<const cluster::Candidates*>& ranks, bool raw);

}  // namespace lockstep
