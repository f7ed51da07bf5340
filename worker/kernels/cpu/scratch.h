// SPDX-License-Identifier: Apache-2.0
// How much scratch kernels use, and how it is shared out: kernels and scratch_bytes() must agree.
// Internal linkage, since files of every ISA include it.
#pragma once

#include "worker/kernels/cpu/panels.h"
#include "worker/kernels/kernel.h"

namespace lockstep {
namespace {

constexpr int64_t kScratchAlign = 64;

[[maybe_unused, gnu::always_inline]] inline int64_t align_scratch(int64_t bytes) {
  return (bytes + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
}

// linear: x laid out, what a format keeps of a row, and for each thread a panel's sums of all rows.
struct RowValue {
  float value = 0;
  float inverse = 0;
  int32_t start = 0;  // Of every sum of the row.
};
[[maybe_unused]] int64_t linear_x_bytes(const PanelLayout& layout, int64_t rows, int64_t depth) {
  return align_scratch(rows * layout.units(depth) * layout.row_bytes);
}
[[maybe_unused]] int64_t linear_row_value_bytes(int64_t rows) {
  return align_scratch(rows * static_cast<int64_t>(sizeof(RowValue)));
}
[[maybe_unused]] int64_t linear_sum_bytes(int64_t rows) {
  return rows * kPackRows * static_cast<int64_t>(sizeof(float));
}
[[maybe_unused]] int64_t linear_scratch_bytes(const PanelLayout& layout, int64_t rows,
                                              int64_t depth, int threads) {
  return linear_x_bytes(layout, rows, depth) + linear_row_value_bytes(rows) +
         threads * linear_sum_bytes(rows);
}

// attention: a thread's queries. A query is one head of one row; a thread takes the rows of a block
// while their queries of one KV head are at most kTaskQueries, or one row. Every query has
// accumulators, the probabilities of a block, and four numbers; and there is room for one block of
// keys and values as float32.
constexpr int64_t kTaskQueries = 64;

struct AttentionScratch {
  int64_t queries;
  int64_t padded_dim;    // head_dim in whole vectors.
  int64_t thread_bytes;  // All of one thread's.
};
[[maybe_unused]] AttentionScratch attention_scratch(int64_t heads, int64_t head_dim) {
  const int64_t queries = heads > kTaskQueries ? heads : kTaskQueries;
  const int64_t padded = (head_dim + 15) / 16 * 16;
  const int64_t floats = queries * (padded + kAttentionBlock + 2) + 2 * kAttentionBlock * head_dim;
  const int64_t pointers = 2 * queries * static_cast<int64_t>(sizeof(void*));
  const int64_t positions = queries * static_cast<int64_t>(sizeof(int64_t));
  return {queries, padded,
          align_scratch(floats * static_cast<int64_t>(sizeof(float)) + pointers + positions)};
}

// top_candidates: each output's largest value of every block, edited and raw, a working copy of
// either, and the noisy winner of every slice of blocks.
constexpr int64_t kSliceBlocks = 64;

struct CandidateScratch {
  int64_t blocks;
  int64_t slices;
  int64_t output_bytes;  // All of one output's.
};
[[maybe_unused]] CandidateScratch candidate_scratch(int64_t vocab) {
  const int64_t blocks = (vocab + kVocabBlock - 1) / kVocabBlock;
  const int64_t slices = (blocks + kSliceBlocks - 1) / kSliceBlocks;
  return {blocks, slices,
          align_scratch(4 * blocks * static_cast<int64_t>(sizeof(float)) +
                        slices * static_cast<int64_t>(sizeof(Candidate)))};
}

}  // namespace
}  // namespace lockstep
