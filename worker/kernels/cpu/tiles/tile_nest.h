// SPDX-License-Identifier: Apache-2.0
// linear of many rows as products of tiles: for every 32 rows by a panel the sums stay in tile
// registers over all of K, or over a part of it:
//   for each row block, whose part of x fits the L2 cache, and each block of columns
//     for each part of K
//       for each panel
//         for each 32 rows
//           the products of tile_block.h
// Between these products, lines of the next panel are prefetched, and rows of the previous result
// are finished: they are rescaled, get their bias and are stored past the caches. Bits do not
// depend on how a product is cut: a sum adds the units of K in order, and is stored as it is
// between two parts.
//
// A Format of linear.h can be used if its units have no other numbers between them (TileCodes of
// q8c, TileBFloats). It must also have kProduct.
#pragma once

#include "worker/kernels/cpu/tiles/tile_operands.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

// A smaller output may still be in a cache when it is read.
constexpr int64_t kMinStreamedBytes = 1 << 20;

template <typename Format, TileOrder kOrder>
class TileNest {
 public:
  using Job = LinearJob<Format>;

  struct Guard {
    typename Format::Guard format;
    alignas(64) float results[kNestResult / sizeof(float)];
    alignas(64) std::byte last_unit[kNestStep];
  };

  // `sums`: the threads' memory for sums.
  TileNest(const Job& job, const NestCuts& cuts, std::byte* sums)
      : job_(job),
        operands_{job, Format::kLayout.units(job.x.cols), job.chunks},
        row_blocks_(cuts.blocks, cuts.row_blocks),
        columns_(ceil_div(job.out.cols, kPanel), cuts.columns),
        sums_(sums),
        sum_bytes_(cuts.sum_bytes),
        streams_(job.out.rows * job.out.cols * 4 > kMinStreamedBytes && job.out.stride % 16 == 0 &&
                 reinterpret_cast<uintptr_t>(job.out.data) % 64 == 0) {}

  void lay_out(int64_t block) const { operands_.lay_out(block); }

  // Neighbouring pieces have the same rows, so that a thread finds x in its cache.
  int64_t pieces() const { return row_blocks_.count * columns_.count; }

  void run(int64_t number, int thread, Guard& guard) const {
    guard.format.tiles.shape(kNestRows);
    const int64_t rows = number / columns_.count, columns = number % columns_.count;
    Piece piece = {row_blocks_.begin(rows), row_blocks_.begin(rows + 1), columns_.begin(columns),
                   columns_.begin(columns), sums_ + thread * sum_bytes_};
    const int64_t end = columns_.begin(columns + 1);
    const int64_t room = parts().count == 1 ? end : sum_bytes_ / (piece.blocks() * kNestResult);
    for (; piece.panel < end; piece.panel = piece.panel_end) {
      piece.panel_end = min(end, piece.panel + room);
      for (int64_t part = 0; part < parts().count; ++part) {
        streams_ ? run_part<true>(part, piece, guard) : run_part<false>(part, piece, guard);
      }
    }
    if (streams_) finish_streams();
  }

 private:
  struct Piece {
    int64_t block, block_end, panel, panel_end;
    std::byte* sums;  // [panel][block][32][32] between two parts of K.
    int64_t blocks() const { return block_end - block; }
    int64_t results() const { return (panel_end - panel) * blocks(); }
  };

  const Parts& parts() const { return operands_.parts; }

  // The weights that are used after this part of this panel.
  const std::byte* begin_after(int64_t panel, int64_t part, const Piece& piece) const {
    if (panel + 1 < piece.panel_end) return operands_.begin_of(panel + 1, part);
    if (part + 1 < parts().count) return operands_.begin_of(piece.panel, part + 1);
    return operands_.begin_of(piece.panel_end < columns_.size ? piece.panel_end : 0, 0);
  }

  template <bool kStreams>
  void run_part(int64_t part, const Piece& piece, Guard& guard) const {
    const int64_t bytes = operands_.units_of(part) * kNestStep;
    Between between = {{nullptr, 0},
                       ceil_div(kNestStep / 64 * Between::kFourLines / 4, piece.blocks())};
    int64_t result = 0;
    for (int64_t panel = piece.panel; panel < piece.panel_end; ++panel) {
      between.lines = {begin_after(panel, part, piece), bytes};
      const PanelPart weights = operands_.part_of(panel, part, guard.last_unit);
      for (int64_t block = piece.block; block < piece.block_end; ++block, ++result) {
        std::byte* sums = piece.sums + result * kNestResult;
        const bool ends = result + 1 == piece.results();
        if (parts().count > 1) between.next_sums = ends ? piece.sums : sums + kNestResult;
        run_block<kStreams>(part, panel, block, weights, sums, between, guard);
      }
    }
    between.results.finish_all<kStreams>(job_);
  }

  // 32 rows by a panel.
  template <bool kStreams>
  void run_block(int64_t part, int64_t panel, int64_t block, const PanelPart& weights,
                 std::byte* sums, Between& between, Guard& guard) const {
    const int64_t row = block * kNestRows, rows = min(kNestRows, job_.x.rows - row);
    const bool both = rows > kTileSide, last = part + 1 == parts().count;
    if (last && !kStreams) job_.fetch_out(row, rows, panel * kPanel);
    part == 0 ? zero_sums(both) : load_sums(sums, both);
    const std::byte* x = operands_.x_of(block, part);
    if (both) {
      multiply_block<kOrder, true, kStreams>(job_, x, weights, between);
    } else {
      multiply_block<kOrder, false, kStreams>(job_, x, weights, between);
    }
    between.results = {};
    store_sums(last ? reinterpret_cast<std::byte*>(guard.results) : sums, both);
    if (!last) return;
    between.results = {guard.results, operands_.header_of(panel), panel * kPanel, row, row + rows};
  }

  const Job& job_;
  NestOperands<Format> operands_;
  Parts row_blocks_, columns_;
  std::byte* sums_;
  int64_t sum_bytes_;
  bool streams_;
};

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
