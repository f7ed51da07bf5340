// SPDX-License-Identifier: Apache-2.0
// Products of tiles (registers of 16 rows of 64 bytes), for the ISA that LOCKSTEP_ISA names: AMX,
// or an emulation of its documented instructions.
//
//   A product takes rows [rows][4 * depth bytes] and weights [depth][16 columns][4 bytes] and adds
//   to sums [rows][16]. tile_dot<Product::kCodes>: int32 sums of signed bytes of a row times
//   unsigned bytes of a weight; sums wrap around. kPairs: bfloat16. Each product of tiles sums up
//   the pairs' first elements and, separately, the second ones, from 0 in order by fma. Then it
//   adds both sums, then the previous sum: dot_pairs (dot.h) has another order. Denormals count as
//   zero, independent of the thread's settings. tile_zero<t>(), tile_load<t>(p, stride),
//   tile_store<t>(p, stride): for register t, in the shape that Tiles gave it; `stride` is in
//   bytes. tile_load_once: tile_load of bytes that need not stay in the L1 cache. stream(v, p):
//   stores v past the caches, at an address that is a multiple of 64; other threads see it after
//   finish_streams(). LOCKSTEP_FEW_ROWS: the ISA used for few rows.
#pragma once

#include "worker/kernels/cpu/vector/dot.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kTileSide = 16;   // Rows and columns of a tile of sums.
constexpr int64_t kTileBytes = 64;  // Bytes per row.

enum class Product { kCodes, kPairs };

// The CPU's format.
struct TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA

#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 6
#include "worker/kernels/cpu/tiles/tile_amx.h"
#else
#include "worker/kernels/cpu/tiles/tile_emulated.h"
#endif

namespace lockstep::LOCKSTEP_ISA {
namespace {

// Register 2 * i + j has the sums of half i of 32 rows by half j of a panel (i and j are 0 or 1).
// Registers 4 and 5 have the two halves of the rows, 6 and 7 the two halves of the panel.
constexpr int kRowTile = 4, kWeightTile = 6;

// While an object exists the thread's tile registers belong to it. kBytes: the bytes of a row in
// one product.
template <int64_t kBytes>
class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  ~Tiles() {
    if (rows_ != 0) tile_release();
  }

  // Gives the registers the shapes for 1 to 32 rows. If the shapes change, the registers' contents
  // are lost.
  void shape(int64_t rows) {
    if (rows == rows_) return;
    rows_ = rows;
    TileConfig config;
    const auto set = [&](int tile, int64_t tile_rows, int64_t bytes) {
      config.rows[tile] = static_cast<uint8_t>(tile_rows);
      config.row_bytes[tile] = static_cast<uint16_t>(tile_rows == 0 ? 0 : bytes);
    };
    for (int half = 0; half < 2; ++half) {
      const int64_t left = rows - half * kTileSide, max = left < kTileSide ? left : kTileSide;
      const int64_t tile_rows = max > 0 ? max : 0;
      set(2 * half, tile_rows, kTileBytes);
      set(2 * half + 1, tile_rows, kTileBytes);
      set(kRowTile + half, tile_rows, kBytes);
      set(kWeightTile + half, kBytes / 4, kTileBytes);
    }
    tile_configure(config);
  }

 private:
  int64_t rows_ = 0;
};

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
