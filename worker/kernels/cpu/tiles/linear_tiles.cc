// SPDX-License-Identifier: Apache-2.0
// linear as products of tiles (tile.h): 32 rows by a panel, two tiles of rows by two of weights, so
// that each loaded tile is used in two products. A panel's codes already have a weight tile's
// order; int4 is first unpacked to bytes, a chunk at a time for all its rows.
//
// float32 rows times codes (linear_codes.h): sums of codes are exact, and they are scaled and added
// in the order of linear_quantized.cc, so the bits are the same. A product of tiles takes 16
// cycles, two vector instructions take one. By this count linear_quantized.cc takes 12 cycles per
// row for a group of 32 by a panel. Here 16 rows take 32 cycles, and each row 4 more for scaling.
// Below kMinRows both ways wait for memory, and tiles gain nothing.
//
// bfloat16 times bfloat16 is added in the order of the tile instruction, 32 elements of K per
// product; vector instructions add in another order. So tiles compute every number of rows, even
// one. A row's bits are then the same for any number of rows, even if the instruction differs from
// its description. A single row leaves most of a tile idle, and still waits for memory: 2 KiB of
// weights take 3 loads and 2 products, that is 32 to 60 cycles; at 10 GB/s they need ten times as
// long to arrive.
#include "worker/kernels/cpu/linear/expert_linear.h"
#include "worker/kernels/cpu/linear/linear_codes.h"
#include "worker/kernels/cpu/tiles/tile.h"

namespace lockstep::LOCKSTEP_FEW_ROWS {
template <DType kWeight>
const char* linear_quantized(const KernelArgs& args);
template <DType kWeight>
const char* expert_linear_quantized(const KernelArgs& args);
}  // namespace lockstep::LOCKSTEP_FEW_ROWS

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kMinRows = 8;
constexpr int64_t kPanelStride = kPanel * 4;  // Bytes between rows of a tile of weights, or sums.

// The bytes of a row in one product, if it has `row_bytes` in a unit.
constexpr int64_t product_bytes(int64_t row_bytes) {
  return row_bytes < kTileBytes ? row_bytes : kTileBytes;
}

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

// A pass that does not scale in between: sums stay in their tiles.
template <Product kProduct, typename Format>
void run_whole(int64_t rows, const TileWork& work) {
  constexpr int64_t kBytes = Format::kLayout.bytes, kRowBytes = Format::kLayout.row_bytes;
  const bool both = rows > kTileSide;
  load_sums(work.sums, both);
  const std::byte *x = work.x, *weights = work.panel;
  for (int64_t unit = 0; unit < work.units; ++unit) {
    prefetch_unit(work.ahead, weights, kBytes);
    if (work.panel_end - weights >= kBytes) {
      multiply<kProduct, kRowBytes>(x, weights, both);
    } else {
      alignas(64) std::byte filled_up[kBytes] = {};
      __builtin_memcpy(filled_up, weights, static_cast<size_t>(work.panel_end - weights));
      multiply<kProduct, kRowBytes>(x, filled_up, both);
    }
    x += rows * kRowBytes;
    weights += kBytes;
  }
  store_sums(work.sums, both);
}

template <DType kWeight>
struct TileCodes : CodeRows<kWeight, tile_layout(kWeight).depth> {
  static constexpr PanelLayout kPacked = panel_layout(kWeight);
  static constexpr PanelLayout kLayout = tile_layout(kWeight);
  static constexpr int64_t kDepth = kLayout.depth;
  using Rows = CodeRows<kWeight, kDepth>;
  using Rows::kKind, Rows::kWhole, Rows::kScaleBytes;
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
      multiply<Product::kCodes, kDepth>(x, weights + kScaleBytes, both);
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
      run_whole<Product::kCodes, TileCodes>(rows, work);
    } else {
      run_groups(rows, work, guard);
    }
  }
};

struct TileBFloats : PlainSums {
  using Activation = uint16_t;
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
    __builtin_memcpy(pairs, x, static_cast<size_t>(min(count, kLayout.depth)) * sizeof(*x));
    for (uint32_t& pair : pairs) pair = pair << 16 | pair >> 16;
    __builtin_memcpy(to + r * kLayout.row_bytes, pairs, sizeof(pairs));
  }

  static void run(int64_t rows, const TileWork& work, Guard& guard) {
    guard.tiles.shape(rows);
    run_whole<Product::kPairs, TileBFloats>(rows, work);
  }
};

}  // namespace

template <DType kWeight>
const char* linear_quantized(const KernelArgs& args) {
  if (args.in[0].rows < kMinRows) return LOCKSTEP_FEW_ROWS::linear_quantized<kWeight>(args);
  return linear<TileCodes<kWeight>>(args);
}

// Chooses by the number of rows that an expert has on average.
template <DType kWeight>
const char* expert_linear_quantized(const KernelArgs& args) {
  if (args.out[0].rows < kMinRows * args.attrs.expert().experts) {
    return LOCKSTEP_FEW_ROWS::expert_linear_quantized<kWeight>(args);
  }
  return expert_linear<TileCodes<kWeight>>(args);
}

#define LOCKSTEP_LINEAR_QUANTIZED(KIND)                                       \
  template const char* linear_quantized<DType::KIND>(const KernelArgs& args); \
  template const char* expert_linear_quantized<DType::KIND>(const KernelArgs& args);
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_LINEAR_QUANTIZED)
#undef LOCKSTEP_LINEAR_QUANTIZED

const char* linear_bf16(const KernelArgs& args) { return linear<TileBFloats>(args); }
const char* expert_linear_bf16(const KernelArgs& args) { return expert_linear<TileBFloats>(args); }

}  // namespace lockstep::LOCKSTEP_ISA
