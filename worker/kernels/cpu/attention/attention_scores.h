// SPDX-License-Identifier: Apache-2.0
// Turns the scores of a tile's queries over a block of keys into weights: caps them, adds slopes,
// and computes their softmax.
#pragma once

#include "worker/kernels/cpu/attention/attention_queries.h"
#include "worker/kernels/cpu/vector/vec_math.h"

namespace lockstep::LOCKSTEP_ISA {

// Replaces each score by cap * tanh(score / cap), for the keys that any of the queries sees. Scores
// are stored divided by ln 2 (softmax.h).
inline void cap_scores(float* scores, int queries, KeyRange any, float cap) {
  const Vec limit = Vec::splat(cap * kPerLn2);
  for (int q = 0; q < queries; ++q) {
    for (int64_t key = any.begin / Vec::kLanes * Vec::kLanes; key < any.end; key += Vec::kLanes) {
      float* at = scores + q * kKeyBlock + key;
      (limit * tanh(Vec::load(at) / limit)).store(at);
    }
  }
}

// Adds slope * (key's position - query's) to the scores of the keys that any of the queries sees.
template <typename F>
void add_slopes(const Queries<F>& all, int64_t query, int queries, KeyRange any, int64_t begin) {
  constexpr float kLane[Vec::kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int q = 0; q < queries; ++q) {
    const Vec slope = Vec::splat(all.slope[query + q]);
    const int64_t distance = begin - all.position[query + q];
    for (int64_t key = any.begin / Vec::kLanes * Vec::kLanes; key < any.end; key += Vec::kLanes) {
      const Vec away = Vec::splat(static_cast<float>(distance + key)) + Vec::load(kLane);
      float* at = all.scores + q * kKeyBlock + key;
      fma(slope, away, Vec::load(at)).store(at);
    }
  }
}

// kScaled: stores each p times the scale of its value, as codes. A value that is not seen gets
// weight 0, even if its scale is NaN. Returns the scale of the codes; 0 if all weights are nearly
// 0.
template <typename F>
float store_weights(const Vec (&p)[kBlockChunks], const KeyBlock<F>& block,
                    typename F::Factor* weights) {
  Vec w[kBlockChunks], highest = Vec::zero();
#pragma GCC unroll 8
  for (int i = 0; i < kBlockChunks; ++i) {
    const Vec scale = Vec::load(scales_of(block.values[i], block.v_stride));
    w[i] = select_less(Vec::zero(), p[i], p[i] * scale, Vec::zero());
    highest = max(highest, w[i]);
  }
  const float max_weight = max_lane(highest);
  const bool any = max_weight > 1e-30f;
  const Vec inverse = Vec::splat(any ? F::kMaxFactor / max_weight : 0.0f);
#pragma GCC unroll 8
  for (int i = 0; i < kBlockChunks; ++i) store_words(w[i] * inverse, weights + i * kChunk);
  return any ? max_weight / F::kMaxFactor : 0.0f;
}

// Sets the entries of a block's keys outside of `range` to `number`.
[[gnu::always_inline]] inline void hide(Vec (&s)[kBlockChunks], KeyRange range, float number) {
  if (range.begin == 0 && range.end == kKeyBlock) return;
  constexpr float kLane[Vec::kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const Vec begin = Vec::splat(static_cast<float>(range.begin));
  const Vec end = Vec::splat(static_cast<float>(range.end)), hidden = Vec::splat(number);
#pragma GCC unroll 8
  for (int i = 0; i < kBlockChunks; ++i) {
    const Vec key = Vec::load(kLane) + Vec::splat(static_cast<float>(i * kChunk));
    s[i] = select_less(key, begin, hidden, select_less(key, end, s[i], hidden));
  }
}

// The softmax of one block, for a tile's queries [query, query + count). Replaces their scores by
// weights relative to their new running maximum; a key that is not seen gets 0. Rescales their sums
// to that maximum, and adds the weights to their totals.
template <typename F>
void softmax_block(Queries<F>& all, int64_t query, int64_t count, const KeyBlock<F>& block,
                   const KeyRange* seen) {
  for (int64_t q = 0; q < count; ++q) {
    all.fit[q] = 0;
    if (seen[q].end == 0) continue;
    Vec s[kBlockChunks];
#pragma GCC unroll 8
    for (int i = 0; i < kBlockChunks; ++i) {
      s[i] = Vec::load(all.scores + q * kKeyBlock + i * kChunk);
    }
    hide(s, seen[q], -kInfinity);
    const float block_highest = max_block(s);
    const float before = all.part.highest[query + q];
    const float highest = before > block_highest ? before : block_highest;
    // All scores so far are -inf: their weights are 0, but -inf - -inf would be NaN.
    const bool none = highest == -kInfinity;
    const Vec from = Vec::splat(none ? 0.0f : highest);
#pragma GCC unroll 8
    for (int i = 0; i < kBlockChunks; ++i) s[i] = exp2_below(s[i] - from);
    if (none) {
      for (Vec& p : s) p = p * Vec::zero();  // NaN stays NaN.
    }
    hide(s, seen[q], 0);
    typename F::Factor* weights = all.weights + q * kKeyBlock;
    if constexpr (F::kScaled) {
      all.fit[q] = store_weights<F>(s, block, weights);
    } else {
#pragma GCC unroll 8
      for (int i = 0; i < kBlockChunks; ++i) F::store_weights(s[i], weights + i * kChunk);
    }
    if (highest != before) shrink_sums(all.part, query + q, all.v_padded, highest);
    float& total = all.part.total[query + q];
    total = total + sum_block(s);
  }
}

}  // namespace lockstep::LOCKSTEP_ISA
