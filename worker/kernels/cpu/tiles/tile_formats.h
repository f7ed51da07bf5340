// SPDX-License-Identifier: Apache-2.0
// Formats of linear.h for tile instructions: codes (see linear_codes.h), and bfloat16.
#pragma once

#include "worker/kernels/cpu/linear/linear_codes.h"
#include "worker/kernels/cpu/tiles/tile_chunk.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <DType kWeight>
struct TileCodes : CodeRows<kWeight, tile_layout(kWeight).depth> {
  static constexpr PanelLayout kPacked = panel_layout(kWeight);
  static constexpr PanelLayout kLayout = tile_layout(kWeight);
  static constexpr int64_t kDepth = kLayout.depth;
  using Rows = CodeRows<kWeight, kDepth>;
  using Rows::kKind, Rows::kWhole, Rows::kScaleBytes;
  static constexpr Product kProduct = Product::kCodes;
  static constexpr int64_t kUnitBytes = kScaleBytes + kDepth * kPanel;  // When unpacked.
  static constexpr int64_t kChunkUnits = kChunkBytes / kUnitBytes;
  static constexpr int kTileRows = 2 * kTileSide, kRowStep = kTileSide;
  static constexpr int64_t kAheadRows = 1;

  struct Guard {
    Tiles<product_bytes(kDepth)> tiles;
    // The products of one group and of the one before it.
    alignas(64) int32_t products[2][kWhole ? 1 : kTileRows * kPanel];
    alignas(64) std::byte unpacked[kKind.bits == 8 ? 1 : kChunkUnits * kUnitBytes];
  };

  static const std::byte* unpack(const std::byte* panel, int64_t units, Guard& guard) {
    if constexpr (kKind.bits == 8) return panel;
    constexpr int64_t kHalf = kDepth / 2 * kPanel;
    std::byte* to = guard.unpacked;
    for (int64_t unit = 0; unit < units; ++unit, to += kUnitBytes) {
      __builtin_memcpy(to, panel, kScaleBytes);
      panel += kScaleBytes;
      for (int64_t at = kScaleBytes; at < kScaleBytes + kHalf; at += kTileBytes) {
        const Quads both = Quads::load(panel), low = low_nibbles(both), high = high_nibbles(both);
        __builtin_memcpy(to + at, &low, kTileBytes);
        __builtin_memcpy(to + at + kHalf, &high, kTileBytes);
        panel += kTileBytes;
      }
    }
    return guard.unpacked;
  }

  // Adds a group's products, times its scales, to the sums.
  static void scale(int64_t rows, const std::byte* x, const std::byte* panel,
                    const int32_t* products, float* sums) {
    const typename Rows::Scales scales(panel);
    const std::byte* numbers = x + rows * kDepth;
    for (int64_t r = 0; r < rows; ++r, numbers += 4, products += kPanel, sums += kPanel) {
      const Sums start = Sums::splat(reinterpret_cast<const int32_t*>(numbers)[rows]);
      Vec sum0 = Vec::load(sums), sum1 = Vec::load(sums + Vec::kLanes);
      Rows::scale_row(scales, numbers, rows, Sums::load(products) + start,
                      Sums::load(products + Vec::kLanes) + start, sum0, sum1);
      sum0.store(sums);
      sum1.store(sums + Vec::kLanes);
    }
  }

  // Tile instructions compute one group while vector instructions scale the one before it.
  static void run_groups(int64_t rows, const TileWork& work, Guard& guard) {
    const bool both = rows > kTileSide;
    const int64_t x_bytes = rows * kLayout.row_bytes;
    const std::byte *x = work.x, *weights = work.weights, *panel = work.panel;
    for (int64_t unit = 0; unit < work.units; ++unit) {
      prefetch_unit(work.ahead, panel, kLayout.bytes);
      zero_sums(both);
      multiply<kProduct, kDepth>(x, weights + kScaleBytes, both);
      store_sums(guard.products[unit % 2], both);
      if (unit > 0) {
        scale(rows, x - x_bytes, weights - kUnitBytes, guard.products[(unit - 1) % 2], work.sums);
      }
      x += x_bytes;
      weights += kUnitBytes;
      panel += kLayout.bytes;
    }
    const int64_t last = work.units - 1;
    scale(rows, x - x_bytes, weights - kUnitBytes, guard.products[last % 2], work.sums);
  }

  static void run(int64_t rows, const TileWork& work, Guard& guard) {
    if (work.units == 0) return;
    guard.tiles.shape(rows);
    if constexpr (kWhole) {
      run_whole<TileCodes>(rows, work);
    } else {
      run_groups(rows, work, guard);
    }
  }
};

struct TileBFloats : PlainSums {
  using Activation = uint16_t;
  static constexpr Product kProduct = Product::kPairs;
  static constexpr PanelLayout kPacked = panel_layout(DType::kBF16);
  static constexpr PanelLayout kLayout = tile_layout(DType::kBF16);
  static constexpr int64_t kChunkUnits = kChunkBytes / kLayout.bytes;
  static constexpr int kTileRows = 2 * kTileSide, kRowStep = kTileSide;
  static constexpr int64_t kAheadRows = 5;

  struct Guard {
    FlushDenormals flush;
    Tiles<kLayout.row_bytes> tiles;
  };

  // Swaps the elements of each pair, as in the panel.
  static void lay_out(const uint16_t* x, int64_t count, std::byte* to, int64_t r, int64_t,
                      RowValue&) {
    uint32_t pairs[kLayout.depth / 2] = {};
    if (count >= kLayout.depth) {
      __builtin_memcpy(pairs, x, sizeof(pairs));  // Inlined, since the size is a constant.
    } else {
      __builtin_memcpy(pairs, x, static_cast<size_t>(count) * sizeof(*x));
    }
    for (uint32_t& pair : pairs) pair = pair << 16 | pair >> 16;
    __builtin_memcpy(to + r * kLayout.row_bytes, pairs, sizeof(pairs));
  }

  static void run(int64_t rows, const TileWork& work, Guard& guard) {
    guard.tiles.shape(rows);
    run_whole<TileBFloats>(rows, work);
  }
};

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
