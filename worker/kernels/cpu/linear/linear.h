// SPDX-License-Identifier: Apache-2.0
// The loops that all kernels of linear share. out[r][n] = sum over k of x[r][k] * weight[n][k] (+
// bias[n]): each output is one lane that adds over k in order, so bits do not depend on rows, tiles
// or threads. Weights are panels (panels.h); a Format multiplies a tile of a few rows by a panel. K
// is cut into chunks, so that a panel's part of a chunk fits the L1 cache. All tiles of rows are
// multiplied by one chunk, and their sums are stored, before the next chunk begins. Before all
// products, x is laid out as [chunk][tile][unit][row], so that a tile reads one stream.
//
// A Format has: kLayout, kTileRows (rows of the largest tile), kAheadRows (a single tile of at
// least this many rows prefetches its panel), Activation, Guard (every task holds one),
//   row_value(x, cols): a row's value before it is laid out,
//   lay_out(x, count, to, r, rows, value): stores the row's next unit as row r of `rows`; `count`
//   elements of the row are left,
//   run<kRows>(work): adds the products of `work` to its sums, and
//   finish(left, right, header, value): rescales the sums of a row.
// A format of tile instructions (linear_tiles.cc) has run(rows, work, guard) instead. Its unit may
// be several packed units (kPacked). It may also have unpack(panel, units, guard), which unpacks a
// chunk for all rows.
#pragma once

#include "worker/kernels/cpu/linear/tile_work.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kChunkBytes = 17 << 10;  // Maximum of one panel's part of a chunk.
constexpr int64_t kAheadBytes = 12 << 10;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// `size` cut evenly into `count` parts at multiples of `step`, the longer parts first.
struct Parts {
  int64_t size, count, step, each, longer;
  Parts(int64_t whole, int64_t parts, int64_t multiple = 1)
      : size(whole),
        count(parts),
        step(multiple),
        each(ceil_div(whole, multiple) / parts),
        longer(ceil_div(whole, multiple) % parts) {}
  int64_t begin(int64_t part) const { return min(size, (part * each + min(part, longer)) * step); }
};

template <typename Format>
concept OfTiles = requires {
  Format::kRowStep;
};

template <typename Format>
constexpr PanelLayout packed_layout() {
  if constexpr (OfTiles<Format>) return Format::kPacked;
  return Format::kLayout;
}

template <typename Format, int kRows = Format::kTileRows>
void run_rows(int64_t rows, const TileWork& work) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return run_rows<Format, kRows - 1>(rows, work);
  }
  Format::template run<kRows>(work);
}

// Formats that round float32 rows in groups also take rounded rows: lay_out has a second form for
// an array of RoundedGroup.
template <typename Format>
concept TakesRounded = requires {
  Format::kRounded;
}
&&Format::kRounded != DType::kNone;

// The rows of x and of the output that belong to a job: here all of them, in order.
struct AllRows {
  static int64_t of_x(int64_t row) { return row; }
  static int64_t of_out(int64_t row) { return row; }
};

// The product of rows and a matrix, and the parts that both are cut into.
template <typename Format, typename Rows = AllRows>
struct LinearJob {
  using Activation = typename Format::Activation;
  using Guard = typename Format::Guard;
  static constexpr PanelLayout kLayout = Format::kLayout, kPacked = packed_layout<Format>();
  const TensorView &x, &weight, &out;
  const float* bias;
  Parts tiles, chunks;
  std::byte* packed;
  RowValue* values;
  Rows rows = {};

  const std::byte* tile_x(int64_t chunk, int64_t tile) const {
    const int64_t begin = chunks.begin(chunk), units = chunks.begin(chunk + 1) - begin;
    return packed + (begin * tiles.size + units * tiles.begin(tile)) * kLayout.row_bytes;
  }

  void lay_out(int64_t tile) const {
    if constexpr (TakesRounded<Format>) {
      if (is_rounded(x.dtype)) return lay_out_rows<RoundedGroup, kRoundedGroup>(tile);
    }
    lay_out_rows<Activation, 1>(tile);
  }

  // An X holds kElements elements of x.
  template <typename X, int64_t kElements>
  void lay_out_rows(int64_t tile) const {
    const int64_t first = tiles.begin(tile), count = tiles.begin(tile + 1) - first;
    for (int64_t r = 0; r < count; ++r) {
      const X* row = static_cast<const X*>(x.data) + rows.of_x(first + r) * (x.stride / kElements);
      RowValue value = Format::row_value(row, x.cols);
      for (int64_t chunk = 0; chunk < chunks.count; ++chunk) {
        auto* to = const_cast<std::byte*>(tile_x(chunk, tile));
        for (int64_t unit = chunks.begin(chunk); unit < chunks.begin(chunk + 1); ++unit) {
          const int64_t k = unit * kLayout.depth;
          Format::lay_out(row + k / kElements, x.cols - k, to, r, count, value);
          to += count * kLayout.row_bytes;
        }
      }
      values[first + r] = value;
    }
  }

  // Multiplies tiles [first, last) by one panel, whose first column is `col`. `sums` and `guard`
  // belong to this thread.
  void run_panel(int64_t col, int64_t first, int64_t last, float* sums, Guard& guard) const {
    const int64_t bytes = kPacked.panel_bytes(x.cols);
    const auto* header = static_cast<const std::byte*>(weight.data) + col / kPanel * bytes;
    const std::byte* units = header + kLayout.header_bytes;
    const int64_t row = tiles.begin(first);
    for (int64_t chunk = 0; chunk < chunks.count; ++chunk) {
      const int64_t begin = chunks.begin(chunk), count = chunks.begin(chunk + 1) - begin;
      const std::byte *panel = units + begin * kLayout.bytes, *weights = panel;
      if constexpr (requires { Format::unpack(panel, count, guard); }) {
        weights = Format::unpack(panel, count, guard);
      }
      for (int64_t tile = first; tile < last; ++tile) {
        const int64_t tile_row = tiles.begin(tile), tile_rows = tiles.begin(tile + 1) - tile_row;
        float* tile_sums = sums + (tile_row - row) * kPanel;
        const TileWork work = {tile_x(chunk, tile),
                               panel,
                               count,
                               tile_sums,
                               ahead_of(tile - first, last - first, tile_rows, count),
                               weights,
                               header + bytes};
        const bool ends = chunk + 1 == chunks.count;
        if (ends && last - first > 1) fetch_out(tile_row, tile_rows, col);
        if (chunk == 0) start(tile_row, tile_rows, tile_sums);
        if constexpr (OfTiles<Format>) {
          Format::run(tile_rows, work, guard);
        } else {
          run_rows<Format>(tile_rows, work);
        }
        if (ends) finish(tile_row, tile_rows, col, header, tile_sums);
      }
    }
  }

  // A single tile prefetches the weights that it uses next. If there are several tiles, each of the
  // first two prefetches half of the next chunk.
  static Ahead ahead_of(int64_t tile, int64_t tiles, int64_t rows, int64_t units) {
    const bool four_pages = reads_by_four_pages();
    if (tiles == 1) {
      if (four_pages) return {Ahead::Lines::kBoth, Ahead::kInFourPages};
      if (rows >= Format::kAheadRows) return {Ahead::Lines::kBoth, kAheadBytes};
      return {};
    }
    if (tile >= 2) return {};
    return {tile == 0 ? Ahead::Lines::kFirst : Ahead::Lines::kSecond,
            four_pages ? Ahead::kInFourPages : units * kLayout.bytes};
  }

  // For many rows: each has one or two cache lines of a panel's outputs, which no hardware
  // prefetcher finds. The outputs of few rows are in the cache.
  void fetch_out(int64_t first, int64_t count, int64_t col) const {
    for (int64_t r = first; r < first + count; ++r) {
      const float* to = out.row<float>(rows.of_out(r)) + col;
      fetch_to_write(to);
      fetch_to_write(to + Vec::kLanes);
    }
  }

  void start(int64_t first, int64_t count, float* sums) const {
    for (int64_t r = 0; r < count; ++r) {
      const Sums from = Sums::splat(values[first + r].start);
      auto* to = reinterpret_cast<int32_t*>(sums + r * kPanel);
      from.store(to);
      from.store(to + Vec::kLanes);
    }
  }

  void finish(int64_t first, int64_t count, int64_t col, const std::byte* header,
              const float* sums) const {
    for (int64_t r = first; r < first + count; ++r, sums += kPanel) {
      Vec left = Vec::load(sums), right = Vec::load(sums + Vec::kLanes);
      complete(r, col, header, left, right);
      put(out.row<float>(rows.of_out(r)) + col, col, left, right);
    }
  }

  // Turns the sums of row `r` into its outputs, for the panel whose first column is `col`.
  [[gnu::always_inline]] void complete(int64_t r, int64_t col, const std::byte* header, Vec& left,
                                       Vec& right) const {
    Format::finish(left, right, header, values[r]);
    if (bias == nullptr) return;
    const int64_t cols = out.cols - col;
    if (cols >= kPanel) {
      left = left + Vec::load(bias + col);
      right = right + Vec::load(bias + col + Vec::kLanes);
    } else {
      const int64_t left_cols = min(cols, Vec::kLanes);
      left = left + Vec::load(bias + col, left_cols);
      right = right + Vec::load(bias + col + left_cols, cols - left_cols);
    }
  }

  // Stores a row's outputs for the panel whose first column is `col`.
  [[gnu::always_inline]] void put(float* to, int64_t col, const Vec& left, const Vec& right) const {
    const int64_t cols = out.cols - col;
    if (cols >= kPanel) {
      left.store(to);
      right.store(to + Vec::kLanes);
    } else {
      const int64_t left_cols = min(cols, Vec::kLanes);
      left.store(to, left_cols);
      right.store(to + left_cols, cols - left_cols);
    }
  }
};

template <typename Format>
Parts cut_rows(int64_t rows) {
  const int64_t count = ceil_div(rows, Format::kTileRows);
  if constexpr (OfTiles<Format>) return {rows, count, Format::kRowStep};
  return {rows, count};
}

// A single tile reads each part of a panel once, so K is not cut for it. But a format of tile
// instructions has a limited buffer for unpacked weights.
template <typename Format>
Parts cut_depth(int64_t units, int64_t tiles) {
  constexpr int64_t kUnitBytes = Format::kLayout.bytes;
  if (units == 0) return {0, 1};
  if constexpr (OfTiles<Format>) return {units, ceil_div(units, Format::kChunkUnits)};
  return {units, tiles == 1 ? 1 : ceil_div(units * kUnitBytes, kChunkBytes)};
}

template <typename Format>
const char* linear(const KernelArgs& args) {
  constexpr PanelLayout kLayout = Format::kLayout;
  const TensorView &x = args.in[0], &out = args.out[0];
  if (x.rows <= 0 || out.cols <= 0) return nullptr;
  const int64_t units = kLayout.units(x.cols);
  const Parts tiles = cut_rows<Format>(x.rows);
  const Parts chunks = cut_depth<Format>(units, tiles.count);
  std::byte* values = args.scratch + linear_x_bytes(kLayout, x.rows, x.cols);
  std::byte* sums = values + linear_row_value_bytes(x.rows);
  const LinearJob<Format> job = {
      x,     args.in[1], out,          static_cast<const float*>(args.in[2].data),
      tiles, chunks,     args.scratch, reinterpret_cast<RowValue*>(values)};
  for_each(*args.parallel, tiles.count, [&](int64_t tile) {
    [[maybe_unused]] typename Format::Guard guard;
    job.lay_out(tile);
  });

  const int threads = args.parallel->threads();
  const int64_t panels = ceil_div(out.cols, kPanel);
  const int64_t wanted = threads > 1 ? threads * kPiecesPerThread : 1;
  const Parts columns = {panels, min(panels, wanted)};
  const Parts rows = {tiles.count, min(tiles.count, ceil_div(wanted, columns.count))};
  for_each(*args.parallel, columns.count * rows.count, [&](int64_t piece, int thread) {
    typename Format::Guard guard;
    const int64_t c = piece / rows.count, r = piece % rows.count;
    auto* own = reinterpret_cast<float*>(sums + thread * linear_sum_bytes(x.rows));
    for (int64_t panel = columns.begin(c); panel < columns.begin(c + 1); ++panel) {
      job.run_panel(panel * kPanel, rows.begin(r), rows.begin(r + 1), own, guard);
    }
  });
  return nullptr;
}

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
