// SPDX-License-Identifier: Apache-2.0
// The queries that a thread works on at once, and the softmax that goes from block to block.
#pragma once

#include "worker/kernels/cpu/kv_format.h"
#include "worker/kernels/cpu/scratch.h"
#include "worker/kernels/cpu/vec_math.h"

namespace lockstep::LOCKSTEP_ISA {

// Keys of so many positions are summed up for themselves; a multiple of kAttentionBlock.
inline constexpr int64_t kPart = 16 * kAttentionBlock;

[[gnu::always_inline]] inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
[[gnu::always_inline]] inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// Keys [begin, end), relative to a block.
struct Range {
  int64_t begin;
  int64_t end;
};
[[gnu::always_inline]] inline Range cut(Range range, int64_t begin, int64_t end) {
  return {most(range.begin, begin), least(range.end, end)};
}

// The softmax of some queries over some keys: sums relative to the greatest score.
struct Sums {
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
inline void merge(const Sums& into, const Sums& next, int64_t count, int64_t padded) {
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

inline void finish(const Sums& sums, float* const* out, int64_t count, int64_t dim,
                   int64_t padded) {
  for (int64_t q = 0; q < count; ++q) {
    const Vec total = Vec::splat(sums.total[q]);
    for (int64_t d = 0; d < dim; d += Vec::kLanes) {
      (Vec::load(sums.accumulator + q * padded + d) / total).store(out[q] + d, dim - d);
    }
  }
}

template <typename F>
struct Queries {
  int64_t count = 0;
  int64_t padded;
  typename F::Factor* query;    // [count][padded]
  float* scale;                 // [count] what scores are multiplied by
  float** out;                  // [count]
  int64_t* position;            // [count], ascending
  Sums part;                    // Over the keys of this part,
  Sums whole;                   // and of the parts before it.
  float* scores;                // [tile][kAttentionBlock]
  typename F::Factor* weights;  // [tile][kAttentionBlock]
  float* fit;                   // [tile], kScaled: the weights' scale
};

inline Sums lay_out_sums(std::byte* at, int64_t queries, int64_t padded) {
  auto* const accumulator = reinterpret_cast<float*>(at);
  float* const highest = accumulator + queries * padded;
  return {highest, highest + queries, accumulator};
}

template <typename F>
Queries<F> lay_out(std::byte* scratch, const AttentionScratch& sizes) {
  const auto take = [&](int64_t bytes) {
    std::byte* const at = scratch;
    scratch += align_scratch(bytes);
    return at;
  };
  const auto floats = [&](int64_t count) {
    return reinterpret_cast<float*>(take(count * static_cast<int64_t>(sizeof(float))));
  };
  Queries<F> all;
  all.padded = sizes.padded;
  all.query = reinterpret_cast<typename F::Factor*>(floats(sizes.queries * sizes.padded));
  all.scale = floats(sizes.queries);
  for (Sums* sums : {&all.part, &all.whole}) {
    *sums = lay_out_sums(take(sizes.sums_bytes), sizes.queries, sizes.padded);
  }
  all.scores = floats(kMostTileQueries * kAttentionBlock);
  all.weights = reinterpret_cast<typename F::Factor*>(floats(kMostTileQueries * kAttentionBlock));
  all.fit = floats(kMostTileQueries);
  all.out = reinterpret_cast<float**>(take(sizes.queries * static_cast<int64_t>(sizeof(float*))));
  all.position = reinterpret_cast<int64_t*>(take(sizes.queries * 8));
  return all;
}

// kScaled: p times its value's scale, as codes. A value that is not seen has weight 0, whatever its
// scale. Returns the codes' own scale; weights that are all nearly 0 are 0.
template <typename F>
float store_weights(const Vec (&p)[kBlockChunks], const Block<F>& block, int64_t padded,
                    typename F::Factor* weights) {
  Vec w[kBlockChunks], highest = Vec::zero();
  for (int i = 0; i < kBlockChunks; ++i) {
    const Vec scale = Vec::load(scales_of(block.chunk[i], padded) + kChunk);
    w[i] = select_less(Vec::zero(), p[i], p[i] * scale, Vec::zero());
    highest = max(highest, w[i]);
  }
  const float most_weight = max_lane(highest);
  const bool any = most_weight > 1e-30f;
  const Vec inverse = Vec::splat(any ? F::kMostFactor / most_weight : 0.0f);
  for (int i = 0; i < kBlockChunks; ++i) store_words(w[i] * inverse, weights + i * kChunk);
  return any ? most_weight / F::kMostFactor : 0.0f;
}

// Turns the scores of query `query`, the tile's `q`, into weights relative to its new maximum, 0
// outside of `range`, and brings sum and accumulator to that maximum.
template <typename F>
void soften(Queries<F>& all, int64_t query, int64_t q, const Block<F>& block, Range range) {
  float* scores = all.scores + q * kAttentionBlock;
  for (int64_t j = 0; j < range.begin; ++j) scores[j] = -kInfinity;
  for (int64_t j = range.end; j < kAttentionBlock; ++j) scores[j] = -kInfinity;
  Vec s[kBlockChunks];
  for (int i = 0; i < kBlockChunks; ++i) s[i] = Vec::load(scores + i * kChunk);
  const float block_highest = max_lane(max(max(s[0], s[1]), max(s[2], s[3])));
  const float before = all.part.highest[query];
  const float highest = before > block_highest ? before : block_highest;
  for (Vec& p : s) p = exp(p - Vec::splat(highest));
  typename F::Factor* weights = all.weights + q * kAttentionBlock;
  if constexpr (F::kScaled) {
    all.fit[q] = store_weights<F>(s, block, all.padded, weights);
  } else {
    for (int i = 0; i < kBlockChunks; ++i) F::encode(s[i], 1, weights + i * kChunk);
  }
  const float block_total = sum_block(s[0], s[1], s[2], s[3]);
  if (highest == before) {
    all.part.total[query] = all.part.total[query] + block_total;
    return;
  }
  const Vec shrink = exp(Vec::splat(before - highest));
  float* accumulator = all.part.accumulator + query * all.padded;
  for (int64_t d = 0; d < all.padded; d += Vec::kLanes) {
    (Vec::load(accumulator + d) * shrink).store(accumulator + d);
  }
  all.part.highest[query] = highest;
  all.part.total[query] = all.part.total[query] * max_lane(shrink) + block_total;
}

}  // namespace lockstep::LOCKSTEP_ISA
