// SPDX-License-Identifier: Apache-2.0
// The products of tiles for a chunk of a panel in linear.h's loops.
#pragma once

#include "worker/kernels/cpu/tiles/tile_step.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

// The bytes of a row in one product, if it has `row_bytes` in a unit.
constexpr int64_t product_bytes(int64_t row_bytes) {
  return row_bytes < kTileBytes ? row_bytes : kTileBytes;
}

// Adds the products of a unit, rows [rows][kRowBytes] by weights [kRowBytes / 4][32][4], to the
// sums. both: there are more than 16 rows.
template <Product kProduct, int64_t kRowBytes>
[[gnu::always_inline]] inline void multiply(const std::byte* x, const std::byte* weights,
                                            bool both) {
  constexpr int64_t kBytes = product_bytes(kRowBytes);
  for (int64_t at = 0; at < kRowBytes; at += kBytes, weights += kBytes / 4 * kPanelStride) {
    tile_load<kRowTile>(x + at, kRowBytes);
    tile_load<kWeightTile>(weights, kPanelStride);
    tile_load<kWeightTile + 1>(weights + kTileBytes, kPanelStride);
    tile_dot<kProduct, 0, kRowTile, kWeightTile>();
    tile_dot<kProduct, 1, kRowTile, kWeightTile + 1>();
    if (!both) continue;
    tile_load<kRowTile + 1>(x + kTileSide * kRowBytes + at, kRowBytes);
    tile_dot<kProduct, 2, kRowTile + 1, kWeightTile>();
    tile_dot<kProduct, 3, kRowTile + 1, kWeightTile + 1>();
  }
}

[[gnu::always_inline]] inline void prefetch_unit(const Ahead& ahead, const std::byte* panel,
                                                 int64_t bytes) {
  if (ahead.lines == Ahead::Lines::kNone) return;
  for (int64_t at = 0; at < bytes; at += 128) ahead.prefetch(panel + at);
}

// A pass without scaling between products: sums stay in their tiles.
template <typename Format>
void run_whole(int64_t rows, const TileWork& work) {
  constexpr int64_t kBytes = Format::kLayout.bytes, kRowBytes = Format::kLayout.row_bytes;
  const bool both = rows > kTileSide;
  load_sums(work.sums, both);
  const std::byte *x = work.x, *weights = work.panel;
  for (int64_t unit = 0; unit < work.units; ++unit) {
    prefetch_unit(work.ahead, weights, kBytes);
    if (work.panel_end - weights >= kBytes) {
      multiply<Format::kProduct, kRowBytes>(x, weights, both);
    } else {
      alignas(64) std::byte filled_up[kBytes] = {};
      __builtin_memcpy(filled_up, weights, static_cast<size_t>(work.panel_end - weights));
      multiply<Format::kProduct, kRowBytes>(x, filled_up, both);
    }
    x += rows * kRowBytes;
    weights += kBytes;
  }
  store_sums(work.sums, both);
}

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
