// SPDX-License-Identifier: Apache-2.0
// The vocabulary in order of edited logit: its first tokens, made from the ranks' candidates, or
// all tokens, made from a row's logits. The first list is a prefix of the second, so a draw can be
// decided from either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/cluster.pb.h"

namespace lockstep {

struct ScoredToken {
  int32_t id = -1;
  float logit = 0;   // The model's logit.
  float edited = 0;  // After edits and temperature; never NaN or -inf.
};

// Whether `a` comes before `b`: by larger `edited`, then by lower id.
inline bool better(const ScoredToken& a, const ScoredToken& b) {
  return a.edited > b.edited || (a.edited == b.edited && a.id < b.id);
}

// tokens[0, known) are the best of the vocabulary, in order. `complete`: no other token may be
// drawn.
struct Ranking {
  std::vector<ScoredToken> tokens;
  size_t known = 0;
  bool complete = false;
};

// Merges the candidates of all ranks. A rank that sent as many tokens as it was asked for may have
// more. So the order is known only up to the last token of such a rank; if there are several such
// ranks, up to the best of their last tokens.
Ranking rank_candidates(const cluster::Output& output,
                        const std::vector<const cluster::Candidates*>& ranks);

// Every token that may be drawn, unordered (known == 0) until extend_order() is called. The
// arithmetic is the same as in the kernel top_candidates, operation by operation. The output shares
// no edits (merge_shared_edits()).
Ranking rank_logits(const cluster::Output& output, const std::vector<float>& logits);

// Orders at least the first `count` tokens.
void extend_order(Ranking* ranking, size_t count);

// The sum of exp(x - max) over all tokens, added up by runs of blocks (proto/block_sums.h). Runs
// without a finite sum are left out.
struct Sums {
  double max = 0;  // -inf: no token.
  double sum = 0;  // Relative to max.
};
Sums combine_sums(const std::vector<const cluster::Candidates*>& ranks, bool raw);

}  // namespace lockstep
