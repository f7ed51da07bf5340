// SPDX-License-Identifier: Apache-2.0
// Attention's online softmax: running sums over blocks of keys, and the merging of parts.
#pragma once

#include "worker/kernels/cpu/vector/vec_math.h"

namespace lockstep::LOCKSTEP_ISA {

inline constexpr float kPerLn2 = 0x1.715476p+0f;  // e^x = 2^(x / ln 2).

// 2^x for x <= 0, within 3 ulp; 2^0 is exactly 1. It is computed as 2^n * 2^r with |r| <= 1/2,
// where 2^r is the polynomial in r with the smallest relative error. Results are at least the
// smallest normal number; NaN stays NaN.
inline Vec exp2_below(Vec x) {
  x = max(Vec::splat(-126.0f), x);
  const Vec n = round_even(x), r = x - n;
  Vec p = Vec::splat(0x1.5bba14p-10f);
  p = fma(p, r, Vec::splat(0x1.3cea88p-7f));
  p = fma(p, r, Vec::splat(0x1.c6b752p-5f));
  p = fma(p, r, Vec::splat(0x1.ebf9bcp-3f));
  p = fma(p, r, Vec::splat(0x1.62e42ap-1f));
  p = fma(p, r, Vec::splat(1.0f));
  return scale_by_power(p, n);
}

// The softmax of some queries over some keys: sums relative to the highest score. Scores are stored
// divided by ln 2, so that e^score is 2 to the power of the stored number.
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

// Merges the softmax over the keys of `next` into that of `into`.
inline void merge(const Softmax& into, const Softmax& next, int64_t count, int64_t padded) {
  for (int64_t q = 0; q < count; ++q) {
    const float before = into.highest[q], found = next.highest[q];
    if (next.total[q] == 0) continue;  // No key of this part counts.
    const float highest = before > found ? before : found;
    const Vec shrink = exp2_below(Vec::splat(before - highest));
    const Vec fit = exp2_below(Vec::splat(found - highest));
    into.highest[q] = highest;
    into.total[q] = into.total[q] * max_lane(shrink) + next.total[q] * max_lane(fit);
    float* to = into.accumulator + q * padded;
    const float* from = next.accumulator + q * padded;
    for (int64_t d = 0; d < padded; d += Vec::kLanes) {
      fma(Vec::load(from + d), fit, Vec::load(to + d) * shrink).store(to + d);
    }
  }
}

// Rescales a query's sums to a new maximum.
inline void shrink_sums(const Softmax& sums, int64_t query, int64_t padded, float highest) {
  const Vec shrink = exp2_below(Vec::splat(sums.highest[query] - highest));
  float* accumulator = sums.accumulator + query * padded;
  for (int64_t d = 0; d < padded; d += Vec::kLanes) {
    (Vec::load(accumulator + d) * shrink).store(accumulator + d);
  }
  sums.highest[query] = highest;
  sums.total[query] = sums.total[query] * max_lane(shrink);
}

// Adds a score without a value to each query's sums.
inline void add_sinks(const Softmax& sums, const float* sinks, int64_t count, int64_t padded) {
  for (int64_t q = 0; q < count; ++q) {
    const float sink = sinks[q];
    if (sums.highest[q] < sink) shrink_sums(sums, q, padded, sink);
    sums.total[q] = sums.total[q] + max_lane(exp2_below(Vec::splat(sink - sums.highest[q])));
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

}  // namespace lockstep::LOCKSTEP_ISA
