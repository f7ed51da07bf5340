// SPDX-License-Identifier: Apache-2.0
// Up to 32 rows by a panel on tile registers: sums, and the products of 64 bytes of every row.
#pragma once

#include "worker/kernels/cpu/linear/tile_work.h"
#include "worker/kernels/cpu/tiles/tile.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kPanelStride = kPanel * 4;  // Bytes between rows of a tile of weights, or sums.

inline void zero_sums(bool both) {
  tile_zero<0>();
  tile_zero<1>();
  if (!both) return;
  tile_zero<2>();
  tile_zero<3>();
}

// Loads sums [32][32], of 32 rows by a panel, into tiles; only the first 16 rows unless `both`.
inline void load_sums(const void* from, bool both) {
  const auto* sums = static_cast<const std::byte*>(from);
  tile_load<0>(sums, kPanelStride);
  tile_load<1>(sums + kTileBytes, kPanelStride);
  if (!both) return;
  tile_load<2>(sums + kTileSide * kPanelStride, kPanelStride);
  tile_load<3>(sums + kTileSide * kPanelStride + kTileBytes, kPanelStride);
}

inline void store_sums(void* to, bool both) {
  auto* sums = static_cast<std::byte*>(to);
  tile_store<0>(sums, kPanelStride);
  tile_store<1>(sums + kTileBytes, kPanelStride);
  if (!both) return;
  tile_store<2>(sums + kTileSide * kPanelStride, kPanelStride);
  tile_store<3>(sums + kTileSide * kPanelStride + kTileBytes, kPanelStride);
}

// The registers that operands of products are loaded into. Both orders give the same bits. In
// prototypes on a Xeon with AMX, kTwoRegisters was 1.3 to 1.7 times as fast as kFourRegisters
// beside a busy hardware thread of the same core, and 0.84 to 0.9 times as fast alone.
enum class TileOrder : uint8_t { kTwoRegisters, kFourRegisters };

// Adds the products of rows [32][64] by weights [16][32][4] to the sums. kBoth: rows from 16 on are
// included. Tiles must have the shape for 32 rows, because one register is used for either half of
// the rows.
template <Product kProduct, TileOrder kOrder, bool kBoth>
[[gnu::always_inline]] inline void multiply_step(const std::byte* x, const std::byte* weights) {
  constexpr int kX = kRowTile, kW = kWeightTile;
  const std::byte *x1 = x + kTileSide * kTileBytes, *weights1 = weights + kTileBytes;
  tile_load_once<kX>(x, kTileBytes);
  tile_load_once<kW>(weights, kPanelStride);
  tile_dot<kProduct, 0, kX, kW>();
  if constexpr (!kBoth) {
    tile_load_once<kW>(weights1, kPanelStride);
    tile_dot<kProduct, 1, kX, kW>();
  } else if constexpr (kOrder == TileOrder::kTwoRegisters) {
    tile_load_once<kX>(x1, kTileBytes);
    tile_dot<kProduct, 2, kX, kW>();
    tile_load_once<kW>(weights1, kPanelStride);
    tile_dot<kProduct, 3, kX, kW>();
    tile_load_once<kX>(x, kTileBytes);
    tile_dot<kProduct, 1, kX, kW>();
  } else {
    tile_load_once<kW + 1>(weights1, kPanelStride);
    tile_dot<kProduct, 1, kX, kW + 1>();
    tile_load_once<kX + 1>(x1, kTileBytes);
    tile_dot<kProduct, 2, kX + 1, kW>();
    tile_dot<kProduct, 3, kX + 1, kW + 1>();
  }
}

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
