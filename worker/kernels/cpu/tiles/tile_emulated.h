// SPDX-License-Identifier: Apache-2.0
// Tiles in memory, for tests on machines without them: each instruction as in Intel's Software
// Developer's Manual (LDTILECFG, TILELOADD, TILELOADDT1, TILESTORED, TDPBSUD, TDPBF16PS). An
// operand for which the CPU raises an exception ends the program here, too.
#pragma once

#include "worker/kernels/cpu/vector/dot.h"

#define LOCKSTEP_FEW_ROWS portable

namespace lockstep::LOCKSTEP_ISA {

struct EmulatedTile {
  int64_t rows = 0;
  int64_t row_bytes = 0;
  alignas(64) uint8_t bytes[16][64] = {};

  template <typename T>
  T at(int64_t row, int64_t index) const {
    T value;
    __builtin_memcpy(&value, bytes[row] + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
  template <typename T>
  void put(int64_t row, int64_t index, T value) {
    __builtin_memcpy(bytes[row] + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }
};

// This thread's registers. A test may check whether a kernel has released them.
struct EmulatedTiles {
  bool configured = false;
  EmulatedTile tile[8];
};
inline constinit thread_local EmulatedTiles emulated_tiles;

namespace {

inline void refuse_unless(bool allowed) {
  if (!allowed) __builtin_trap();
}

inline EmulatedTile& valid_tile(int index) {
  EmulatedTile& tile = emulated_tiles.tile[index];
  refuse_unless(emulated_tiles.configured && tile.rows != 0);
  return tile;
}

inline void tile_configure(const TileConfig& config) {
  refuse_unless(config.palette == 1 && config.start_row == 0);
  for (const uint8_t byte : config.reserved) refuse_unless(byte == 0);
  emulated_tiles = {.configured = true};
  for (int i = 0; i < 16; ++i) {
    const int64_t rows = config.rows[i], row_bytes = config.row_bytes[i];
    refuse_unless(rows <= 16 && row_bytes <= 64 && (rows == 0) == (row_bytes == 0));
    refuse_unless(i < 8 || rows == 0);
    if (i < 8) emulated_tiles.tile[i].rows = rows, emulated_tiles.tile[i].row_bytes = row_bytes;
  }
}
inline void tile_release() { emulated_tiles = {}; }

template <int kTile>
void tile_zero() {
  EmulatedTile& tile = valid_tile(kTile);
  __builtin_memset(tile.bytes, 0, sizeof(tile.bytes));
}
template <int kTile>
void tile_load(const void* from, int64_t stride) {
  tile_zero<kTile>();
  EmulatedTile& tile = valid_tile(kTile);
  for (int64_t r = 0; r < tile.rows; ++r) {
    __builtin_memcpy(tile.bytes[r], static_cast<const std::byte*>(from) + r * stride,
                     static_cast<size_t>(tile.row_bytes));
  }
}
template <int kTile>
void tile_load_once(const void* from, int64_t stride) {
  tile_load<kTile>(from, stride);
}
template <int kTile>
void tile_store(void* to, int64_t stride) {
  const EmulatedTile& tile = valid_tile(kTile);
  for (int64_t r = 0; r < tile.rows; ++r) {
    __builtin_memcpy(static_cast<std::byte*>(to) + r * stride, tile.bytes[r],
                     static_cast<size_t>(tile.row_bytes));
  }
}

inline void stream(const Vec& v, float* to) {
  refuse_unless(reinterpret_cast<uintptr_t>(to) % 64 == 0);
  v.store(to);
}
inline void finish_streams() {}

inline int32_t dot_codes(const EmulatedTile& x, const EmulatedTile& weights, int64_t r, int64_t n,
                         int32_t sum) {
  auto wrapping = static_cast<uint32_t>(sum);
  for (int64_t k = 0; k < x.row_bytes; ++k) {
    const int product = x.at<int8_t>(r, k) * weights.at<uint8_t>(k / 4, 4 * n + k % 4);
    wrapping += static_cast<uint32_t>(product);
  }
  return static_cast<int32_t>(wrapping);
}

inline float without_denormal(float x) {
  return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
}
inline float element_of(const EmulatedTile& tile, int64_t row, int64_t index) {
  const uint32_t bits = static_cast<uint32_t>(tile.at<uint16_t>(row, index)) << 16;
  return without_denormal(__builtin_bit_cast(float, bits));
}
inline float dot_pairs(const EmulatedTile& x, const EmulatedTile& weights, int64_t r, int64_t n,
                       float sum) {
  float parts[2] = {};
  for (int64_t k = 0; k < x.row_bytes / 4; ++k) {
    for (int64_t i = 0; i < 2; ++i) {
      const float a = element_of(x, r, 2 * k + i), b = element_of(weights, k, 2 * n + i);
      parts[i] = without_denormal(__builtin_fmaf(a, b, parts[i]));
    }
  }
  return without_denormal(without_denormal(sum) + without_denormal(parts[0] + parts[1]));
}

template <Product kProduct, int kSum, int kRows, int kWeights>
void tile_dot() {
  EmulatedTile& sums = valid_tile(kSum);
  const EmulatedTile &x = valid_tile(kRows), &weights = valid_tile(kWeights);
  refuse_unless(kSum != kRows && kSum != kWeights && kRows != kWeights);
  refuse_unless(sums.rows == x.rows && sums.row_bytes == weights.row_bytes);
  refuse_unless(x.row_bytes % 4 == 0 && weights.row_bytes % 4 == 0);
  refuse_unless(x.row_bytes / 4 == weights.rows);
  for (int64_t r = 0; r < sums.rows; ++r) {
    for (int64_t n = 0; n < sums.row_bytes / 4; ++n) {
      if constexpr (kProduct == Product::kCodes) {
        sums.put(r, n, dot_codes(x, weights, r, n, sums.at<int32_t>(r, n)));
      } else {
        sums.put(r, n, dot_pairs(x, weights, r, n, sums.at<float>(r, n)));
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
