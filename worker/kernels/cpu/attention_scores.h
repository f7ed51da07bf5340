// SPDX-License-Identifier: Apache-2.0
// What changes the scores of a tile's queries over a block of keys before their softmax.
#pragma once

#include "worker/kernels/cpu/attention_queries.h"
#include "worker/kernels/cpu/vec_math.h"

namespace lockstep::LOCKSTEP_ISA {

// Scores of the keys that one of the queries sees: cap * tanh(score / cap), in units of ln 2.
inline void cap_scores(float* scores, int queries, KeyRange any, float cap) {
  const Vec most = Vec::splat(cap * kPerLn2);
  for (int q = 0; q < queries; ++q) {
    for (int64_t key = any.begin / Vec::kLanes * Vec::kLanes; key < any.end; key += Vec::kLanes) {
      float* at = scores + q * kKeyBlock + key;
      (most * tanh(Vec::load(at) / most)).store(at);
    }
  }
}

// Adds slope * (key's position - query's) to the scores of the keys that one of the queries sees.
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

}  // namespace lockstep::LOCKSTEP_ISA
