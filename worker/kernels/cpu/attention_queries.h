// SPDX-License-Identifier: Apache-2.0
// The queries that a thread works on at once, and their weights over a block of keys.
#pragma once

#include "worker/kernels/cpu/kv_format.h"
#include "worker/kernels/cpu/scratch.h"
#include "worker/kernels/cpu/softmax.h"
#include "worker/kernels/cpu/vec_math.h"

namespace lockstep::LOCKSTEP_ISA {

// Keys of this many positions have sums of their own, merged later; a multiple of kKeyBlock.
inline constexpr int64_t kPart = 8 * kKeyBlock;

// Keys [begin, end), relative to a block.
struct KeyRange {
  int64_t begin;
  int64_t end;
};
[[gnu::always_inline]] inline KeyRange cut(KeyRange range, int64_t begin, int64_t end) {
  return {max(range.begin, begin), min(range.end, end)};
}

template <typename F>
struct Queries {
  int64_t count = 0;
  int64_t prefix_rows = 0;  // Of their sequence.
  int64_t padded;
  typename F::Factor* query;    // [count][padded]
  float* scale;                 // [count] what scores are multiplied by, 1 / ln 2 included
  float* slope;                 // [count] of alibi, 1 / ln 2 included
  float* sink;                  // [count] likewise
  float** out;                  // [count]
  int64_t* position;            // [count], ascending
  Softmax part;                 // Over the keys of this part,
  Softmax whole;                // and of the parts before it.
  float* scores;                // [tile][kKeyBlock]
  typename F::Factor* weights;  // [tile][kKeyBlock]
  float* fit;                   // [tile], kScaled: the weights' scale
};

inline Softmax lay_out_sums(std::byte* at, int64_t queries, int64_t padded) {
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
  all.slope = floats(sizes.queries);
  all.sink = floats(sizes.queries);
  for (Softmax* sums : {&all.part, &all.whole}) {
    *sums = lay_out_sums(take(sizes.sums_bytes), sizes.queries, sizes.padded);
  }
  all.scores = floats(kMaxTileQueries * kKeyBlock);
  all.weights = reinterpret_cast<typename F::Factor*>(floats(kMaxTileQueries * kKeyBlock));
  all.fit = floats(kMaxTileQueries);
  all.out = reinterpret_cast<float**>(take(sizes.queries * static_cast<int64_t>(sizeof(float*))));
  all.position = reinterpret_cast<int64_t*>(take(sizes.queries * 8));
  return all;
}

// kScaled: p times its value's scale, as codes. A value that is not seen has weight 0, even if its
// scale is NaN. Returns the scale of the codes; 0 where all weights are nearly 0.
template <typename F>
float store_weights(const Vec (&p)[kBlockChunks], const KeyBlock<F>& block, int64_t padded,
                    typename F::Factor* weights) {
  Vec w[kBlockChunks], highest = Vec::zero();
#pragma GCC unroll 8
  for (int i = 0; i < kBlockChunks; ++i) {
    const Vec scale = Vec::load(scales_of(block.chunk[i], padded) + kChunk);
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

// Sets the numbers of a block's keys outside of `range`.
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

// The softmax of one block: turns the scores of a tile's queries [query, query + count) into
// weights relative to their new running maximum (0 where a key is not seen), rescales their sums to
// that maximum and adds the weights to the totals.
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
    // So far only keys with -inf, which count for nothing; and -inf - -inf would be NaN.
    const bool none = highest == -kInfinity;
    const Vec from = Vec::splat(none ? 0.0f : highest);
#pragma GCC unroll 8
    for (int i = 0; i < kBlockChunks; ++i) s[i] = exp2_below(s[i] - from);
    if (none) {
      for (Vec& p : s) p = p * Vec::zero();  // Those of NaN stay.
    }
    hide(s, seen[q], 0);
    typename F::Factor* weights = all.weights + q * kKeyBlock;
    if constexpr (F::kScaled) {
      all.fit[q] = store_weights<F>(s, block, all.padded, weights);
    } else {
#pragma GCC unroll 8
      for (int i = 0; i < kBlockChunks; ++i) F::store_weights(s[i], weights + i * kChunk);
    }
    if (highest != before) shrink_sums(all.part, query + q, all.padded, highest);
    float& total = all.part.total[query + q];
    total = total + sum_block(s);
  }
}

}  // namespace lockstep::LOCKSTEP_ISA
