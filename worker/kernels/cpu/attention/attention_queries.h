// SPDX-License-Identifier: Apache-2.0
// The queries that a thread works on at once, and their sums.
#pragma once

#include "worker/kernels/cpu/attention/softmax.h"
#include "worker/kernels/cpu/pages/attention_scratch.h"
#include "worker/kernels/cpu/pages/kv_format.h"
#include "worker/kernels/cpu/vector/vec_math.h"

namespace lockstep::LOCKSTEP_ISA {

// The keys of this many positions are a part: it has sums of its own, which are merged later. A
// multiple of kKeyBlock.
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
  int64_t prefix_rows = 0;  // The sequence's first rows, which see one another.
  int64_t k_padded;
  int64_t v_padded;
  typename F::Factor* query;    // [count][k_padded]
  float* scale;                 // [count] the factor of scores, 1 / ln 2 included
  float* slope;                 // [count] alibi's slope, 1 / ln 2 included
  float* sink;                  // [count] the sink's score, 1 / ln 2 included
  float** out;                  // [count]
  int64_t* position;            // [count], ascending
  Softmax part;                 // Over the keys of this part.
  Softmax whole;                // Over the keys of all earlier parts.
  float* scores;                // [tile][kKeyBlock]
  typename F::Factor* weights;  // [tile][kKeyBlock]
  float* fit;                   // [tile], kScaled: the weights' scale
  typename F::Element* values;  // A block's values if they are in keys; else null.
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
  all.k_padded = sizes.k_padded;
  all.v_padded = sizes.v_padded;
  all.query = reinterpret_cast<typename F::Factor*>(floats(sizes.queries * sizes.k_padded));
  all.scale = floats(sizes.queries);
  all.slope = floats(sizes.queries);
  all.sink = floats(sizes.queries);
  for (Softmax* sums : {&all.part, &all.whole}) {
    *sums = lay_out_sums(take(sizes.sums_bytes), sizes.queries, sizes.v_padded);
  }
  all.scores = floats(kMaxTileQueries * kKeyBlock);
  all.weights = reinterpret_cast<typename F::Factor*>(floats(kMaxTileQueries * kKeyBlock));
  all.fit = floats(kMaxTileQueries);
  all.out = reinterpret_cast<float**>(take(sizes.queries * static_cast<int64_t>(sizeof(float*))));
  all.position = reinterpret_cast<int64_t*>(take(sizes.queries * 8));
  all.values = nullptr;
  if (sizes.values_bytes > 0) {
    all.values = reinterpret_cast<typename F::Element*>(take(sizes.values_bytes));
  }
  return all;
}

}  // namespace lockstep::LOCKSTEP_ISA
