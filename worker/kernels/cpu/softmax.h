// SPDX-License-Identifier: Apache-2.0
// Attention's softmax, which goes from block to block, and the merging of parts.
#pragma once

#include "worker/kernels/cpu/vec_math.h"

namespace lockstep::LOCKSTEP_ISA {

// The softmax of some queries over some keys: sums relative to the greatest score.
struct Softmax {
  float* highest;      // [queries]
  float* total;        // [queries]
  float* accumulator;  // [queries][padded]

  void clear(int64_t count, int64_t padded) const {
    for (int64_t i = 0; i < count; ++i) {
      highest[i] = -kInfinity;
      total[i] = 0;
    }
    for (int64_t i = 0; i < count * padded; i += Vec::kLanes) Vec::zero().store(accumulator + i);
  }
};

// `into` over its keys and then those of `next`.
inline void merge(const Softmax& into, const Softmax& next, int64_t count, int64_t padded) {
  for (int64_t q = 0; q < count; ++q) {
    const float before = into.highest[q], found = next.highest[q];
    if (found == -kInfinity) continue;
    const float highest = before > found ? before : found;
    const Vec shrink = exp(Vec::splat(before - highest)), fit = exp(Vec::splat(found - highest));
    into.highest[q] = highest;
    into.total[q] = into.total[q] * max_lane(shrink) + next.total[q] * max_lane(fit);
    float* to = into.accumulator + q * padded;
    const float* from = next.accumulator + q * padded;
    for (int64_t d = 0; d < padded; d += Vec::kLanes) {
      fma(Vec::load(from + d), fit, Vec::load(to + d) * shrink).store(to + d);
    }
  }
}

inline void finish(const Softmax& sums, float* const* out, int64_t count, int64_t dim,
                   int64_t padded) {
  for (int64_t q = 0; q < count; ++q) {
    const Vec total = Vec::splat(sums.total[q]);
    for (int64_t d = 0; d < dim; d += Vec::kLanes) {
      (Vec::load(sums.accumulator + q * padded + d) / total).store(out[q] + d, dim - d);
    }
  }
}

// Brings a query's sums to a new maximum.
inline void shrink_sums(const Softmax& sums, int64_t query, int64_t padded, float highest) {
  const Vec shrink = exp(Vec::splat(sums.highest[query] - highest));
  float* accumulator = sums.accumulator + query * padded;
  for (int64_t d = 0; d < padded; d += Vec::kLanes) {
    (Vec::load(accumulator + d) * shrink).store(accumulator + d);
  }
  sums.highest[query] = highest;
  sums.total[query] = sums.total[query] * max_lane(shrink);
}

}  // namespace lockstep::LOCKSTEP_ISA
