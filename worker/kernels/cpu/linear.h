// SPDX-License-Identifier: Apache-2.0
// What every kernel of linear shares. out[r][n] = sum over k of x[r][k] * weight[n][k] (+ bias[n]):
// a lane runs over k in order for every output, so the bits know neither rows, tiles nor threads.
// Weights are panels (panels.h); a Format says how a tile of a few rows by a panel is multiplied.
// K is cut into chunks of which a panel's part fits the nearest cache; all tiles of rows go over a
// chunk, then over the next one, their sums kept in between. x is laid out first, a row of it once,
// as [chunk][tile][unit][row], so that a tile reads one stream.
//
// A Format has: kLayout, kTileRows (rows of the largest tile), kAheadRows (from so many rows on in
// a single tile a panel is asked for ahead of its use), Activation, Guard (lives in every task),
//   row_value(x, cols): of a row before it is laid out,
//   lay_out(x, count, to, r, rows, value): its next unit, as row r of `rows`; `count` elements
//   left, run<kRows>(pass), and finish(left, right, header, value): sums of a row to what they
//   mean.
#pragma once

#include "worker/kernels/cpu/dot.h"
#include "worker/kernels/cpu/scratch.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kPanel = kPackRows;
// Pieces of work a thread: a fast core helps a slow one, and each still reads long streams.
constexpr int64_t kPiecesPerThread = 4;
constexpr int64_t kChunkBytes = 17 << 10;  // Of a panel, at most.
constexpr int64_t kAheadBytes = 12 << 10;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// `size` cut evenly into parts.
struct Parts {
  int64_t size;
  int64_t count;
  int64_t begin(int64_t part) const { return size * part / count; }
};

// A tile of rows by a chunk of a panel. `sums` [rows][32] are gone on with.
struct Pass {
  const std::byte* x;
  const std::byte* panel;
  int64_t units;
  float* sums;
  int64_t ahead = 0;       // How far ahead of its use a panel is asked for; 0: not at all.
  bool every_line = true;  // Or every other one.

  // To be called for every 128 bytes that are used.
  [[gnu::always_inline]] void prefetch(const std::byte* weights) const {
    if (ahead == 0) return;
    __builtin_prefetch(weights + ahead, 0, 2);
    if (every_line) __builtin_prefetch(weights + ahead + 64, 0, 2);
  }
};

// For formats whose sums are what they mean.
struct PlainSums {
  template <typename T>
  static RowValue row_value(const T*, int64_t) {
    return {};
  }
  static void finish(Vec&, Vec&, const std::byte*, const RowValue&) {}
};

template <typename Format, int kRows = Format::kTileRows>
void run_rows(int64_t rows, const Pass& pass) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return run_rows<Format, kRows - 1>(rows, pass);
  }
  Format::template run<kRows>(pass);
}

// A call, and the parts that it is cut into.
template <typename Format>
struct Call {
  using Activation = typename Format::Activation;
  static constexpr PanelLayout kLayout = Format::kLayout;
  const TensorView &x, &weight, &out;
  const float* bias;
  Parts tiles, chunks;
  std::byte* packed;
  RowValue* values;

  const std::byte* tile_x(int64_t chunk, int64_t tile) const {
    const int64_t begin = chunks.begin(chunk), units = chunks.begin(chunk + 1) - begin;
    return packed + (begin * x.rows + units * tiles.begin(tile)) * kLayout.row_bytes;
  }

  void lay_out(int64_t tile) const {
    const int64_t first = tiles.begin(tile), rows = tiles.begin(tile + 1) - first;
    for (int64_t r = 0; r < rows; ++r) {
      const Activation* row = x.row<Activation>(first + r);
      RowValue value = Format::row_value(row, x.cols);
      for (int64_t chunk = 0; chunk < chunks.count; ++chunk) {
        auto* to = const_cast<std::byte*>(tile_x(chunk, tile));
        for (int64_t unit = chunks.begin(chunk); unit < chunks.begin(chunk + 1); ++unit) {
          const int64_t k = unit * kLayout.depth;
          Format::lay_out(row + k, x.cols - k, to, r, rows, value);
          to += rows * kLayout.row_bytes;
        }
      }
      values[first + r] = value;
    }
  }

  // Tiles [first, last) by one panel, whose first column is `col`. `sums` is this thread's.
  void run_panel(int64_t col, int64_t first, int64_t last, float* sums) const {
    const auto* header =
        static_cast<const std::byte*>(weight.data) + col / kPanel * kLayout.panel_bytes(x.cols);
    const std::byte* units = header + kLayout.header_bytes;
    const int64_t row = tiles.begin(first), rows = tiles.begin(last) - row;
    for (int64_t r = 0; r < rows; ++r) {
      const Sums start = Sums::splat(values[row + r].start);
      auto* to = reinterpret_cast<int32_t*>(sums + r * kPanel);
      start.store(to);
      start.store(to + Vec::kLanes);
    }
    for (int64_t chunk = 0; chunk < chunks.count; ++chunk) {
      const int64_t begin = chunks.begin(chunk), count = chunks.begin(chunk + 1) - begin;
      for (int64_t tile = first; tile < last; ++tile) {
        const int64_t tile_row = tiles.begin(tile), tile_rows = tiles.begin(tile + 1) - tile_row;
        Pass pass = {tile_x(chunk, tile), units + begin * kLayout.bytes, count,
                     sums + (tile_row - row) * kPanel};
        set_ahead(pass, tile - first, last - first, tile_rows);
        run_rows<Format>(tile_rows, pass);
      }
    }
    for (int64_t r = 0; r < rows; ++r) finish(row + r, col, header, sums + r * kPanel);
  }

  // A single tile asks for what it will use soon; of several, the first two ask for half of the
  // next chunk each.
  static void set_ahead(Pass& pass, int64_t tile, int64_t tiles, int64_t rows) {
    if (tiles == 1) {
      pass.ahead = rows >= Format::kAheadRows ? kAheadBytes : 0;
    } else if (tile < 2) {
      pass.ahead = pass.units * kLayout.bytes + tile * 64;
      pass.every_line = false;
    }
  }

  void finish(int64_t r, int64_t col, const std::byte* header, const float* sums) const {
    Vec left = Vec::load(sums), right = Vec::load(sums + Vec::kLanes);
    Format::finish(left, right, header, values[r]);
    float* to = out.row<float>(r) + col;
    const int64_t left_cols = least(out.cols - col, Vec::kLanes);
    const int64_t right_cols = least(out.cols - col, kPanel) - left_cols;
    if (bias != nullptr) left = left + Vec::load(bias + col, left_cols);
    left.store(to, left_cols);
    if (right_cols == 0) return;
    if (bias != nullptr) right = right + Vec::load(bias + col + Vec::kLanes, right_cols);
    right.store(to + Vec::kLanes, right_cols);
  }
};

template <typename Format>
void linear(const KernelArgs& args) {
  constexpr PanelLayout kLayout = Format::kLayout;
  const TensorView &x = args.in[0], &out = args.out[0];
  if (x.rows <= 0 || out.cols <= 0) return;
  const int64_t units = kLayout.units(x.cols);
  const Parts tiles = {x.rows, ceil_div(x.rows, Format::kTileRows)};
  // One tile has nothing to come back for.
  const Parts chunks = {
      units, tiles.count == 1 || units == 0 ? 1 : ceil_div(units * kLayout.bytes, kChunkBytes)};
  std::byte* values = args.scratch + linear_x_bytes(kLayout, x.rows, x.cols);
  std::byte* sums = values + linear_row_value_bytes(x.rows);
  const Call<Format> call = {
      x,     args.in[1], out,          static_cast<const float*>(args.in[2].data),
      tiles, chunks,     args.scratch, reinterpret_cast<RowValue*>(values)};
  for_each(*args.parallel, tiles.count, [&](int64_t tile) {
    [[maybe_unused]] const typename Format::Guard guard;
    call.lay_out(tile);
  });

  const int threads = args.parallel->threads();
  const int64_t panels = ceil_div(out.cols, kPanel);
  const int64_t wanted = threads > 1 ? threads * kPiecesPerThread : 1;
  const Parts columns = {panels, least(panels, wanted)};
  const Parts rows = {tiles.count, least(tiles.count, ceil_div(wanted, columns.count))};
  for_each(*args.parallel, columns.count * rows.count, [&](int64_t piece, int thread) {
    [[maybe_unused]] const typename Format::Guard guard;
    const int64_t c = piece / rows.count, r = piece % rows.count;
    auto* own = reinterpret_cast<float*>(sums + thread * linear_sum_bytes(x.rows));
    for (int64_t panel = columns.begin(c); panel < columns.begin(c + 1); ++panel) {
      call.run_panel(panel * kPanel, rows.begin(r), rows.begin(r + 1), own);
    }
  });
}

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
