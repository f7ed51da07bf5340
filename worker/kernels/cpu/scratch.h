// SPDX-License-Identifier: Apache-2.0
// The layout of kernels' scratch, which they share with sizes.cc; attention's is in
// attention_scratch.h. Internal linkage, since files of every ISA include it.
#pragma once

#include "worker/kernels/cpu/pack/panels.h"
#include "worker/kernels/kernel.h"

namespace lockstep {
namespace {

constexpr int64_t kScratchAlign = 64;

[[maybe_unused, gnu::always_inline]] inline int64_t align_scratch(int64_t bytes) {
  return (bytes + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
}

// linear: x as the kernel lays it out, a RowValue for each row, and one panel's sums for each
// thread.
struct RowValue {
  float value = 0;
  float inverse = 0;
  int32_t start = 0;  // The initial value of the row's sums.
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

// expert_linear: routes sorted by expert, in groups of at most kGroupRows rows of one expert. The
// scratch begins with that of linear for all routes. Then come the order of routes, the groups, and
// the first row of each expert.
constexpr int64_t kGroupRows = 512;
struct ExpertGroup {
  int32_t expert;
  int32_t begin;  // In the order of routes.
  int32_t rows;
};
struct ExpertScratch {
  int64_t values;  // Bytes before each part.
  int64_t sums;
  int64_t order;
  int64_t groups;
  int64_t begins;
  int64_t all;
};
[[maybe_unused]] ExpertScratch expert_scratch(const PanelLayout& layout, int64_t rows,
                                              int64_t depth, int64_t experts, int threads) {
  const int64_t max_groups = experts + rows / kGroupRows;
  const int64_t groups = rows < max_groups ? rows : max_groups;
  const int64_t tile_rows = rows < kGroupRows ? rows : kGroupRows;
  ExpertScratch at;
  at.values = linear_x_bytes(layout, rows, depth);
  at.sums = at.values + linear_row_value_bytes(rows);
  at.order = at.sums + threads * linear_sum_bytes(tile_rows);
  at.groups = at.order + align_scratch(rows * static_cast<int64_t>(sizeof(int32_t)));
  at.begins = at.groups + align_scratch(groups * static_cast<int64_t>(sizeof(ExpertGroup)));
  at.all = at.begins + align_scratch((experts + 1) * static_cast<int64_t>(sizeof(int32_t)));
  return at;
}

// top_candidates: for each output the largest edited and the largest raw logit of every block, a
// working copy of both lists, and the noisy winner of every kSliceBlocks blocks.
constexpr int64_t kSliceBlocks = 64;

struct CandidateScratch {
  int64_t blocks;
  int64_t slices;
  int64_t output_bytes;  // For one output.
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
