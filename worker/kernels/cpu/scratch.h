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

// The number of pieces per thread that a linear is cut into. With several pieces a fast core can
// help a slow one; with so few, each piece still reads long streams.
constexpr int64_t kPiecesPerThread = 4;

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

// linear of many rows on tiles (tile_nest.h). x is stored in blocks of 32 rows; a unit has 64 bytes
// of each row: [block][unit][32][64]. A row block is one or more blocks. A piece of the product is
// a row block times a part of the columns. Between two parts of K, each thread keeps its piece's
// sums in its own memory.
constexpr int64_t kNestRows = 32, kNestUnit = 64;
constexpr int64_t kNestStep = kNestRows * kNestUnit;  // The bytes of a unit of a block or a panel.
constexpr int64_t kNestDepth = 64;                    // The maximum number of units in a part of K.
constexpr int64_t kNestCache = 1 << 20;               // Bytes of x that stay in a core's L2 cache.
constexpr int64_t kNestResult = kNestRows * kPackRows * 4;  // The bytes of sums of block by panel.
constexpr int64_t kNestSums = 4 << 20;                      // The maximum bytes of a thread's sums.

// How a product is cut: the number of blocks, of row blocks, of parts of the columns, and of parts
// of K. Then the bytes of a thread's sums; a smaller call never needs more bytes.
struct NestCuts {
  int64_t blocks;
  int64_t row_blocks;
  int64_t columns;
  int64_t parts;
  int64_t sum_bytes;
};
[[maybe_unused]] NestCuts cut_nest(int64_t units, int64_t rows, int64_t cols, int threads) {
  const auto ceil = [](int64_t a, int64_t b) { return a <= b ? 1 : (a + b - 1) / b; };
  const auto least = [](int64_t a, int64_t b) { return a < b ? a : b; };
  const int64_t panels = ceil(cols, kPackRows), blocks = ceil(rows, kNestRows);
  const int64_t parts = ceil(units, kNestDepth);
  const int64_t max_blocks = least(blocks, kNestCache / (ceil(units, parts) * kNestStep));
  const int64_t pieces = threads > 1 ? threads * kPiecesPerThread : 1;
  const int64_t fewest = ceil(blocks, max_blocks);  // Row blocks, so that x fits the cache.
  const int64_t columns = least(panels, ceil(pieces, fewest));
  const int64_t more = least(blocks, ceil(pieces, columns));
  const int64_t sums = parts == 1 ? 0 : ceil(panels, columns) * max_blocks * kNestResult;
  return {blocks, fewest > more ? fewest : more, columns, parts, least(sums, kNestSums)};
}

// The scratch of linear with tile instructions, for few rows and for many.
[[maybe_unused]] int64_t tile_linear_scratch_bytes(const PanelLayout& layout, int64_t rows,
                                                   int64_t depth, int64_t cols, int threads) {
  const int64_t few = linear_scratch_bytes(layout, rows, depth, threads);
  if (layout.row_bytes != kNestUnit) return few;
  const NestCuts cuts = cut_nest(layout.units(depth), rows, cols, threads);
  const int64_t many = cuts.blocks * layout.units(depth) * kNestStep +
                       linear_row_value_bytes(rows) + threads * cuts.sum_bytes;
  return few > many ? few : many;
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
