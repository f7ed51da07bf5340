// SPDX-License-Identifier: Apache-2.0
// A counter-based generator: splitmix64 gives a key per row, and a short hash without branches or
// state, which the compiler vectorizes, gives 32 bits per column. All float arithmetic is exact or
// rounds once.
#include "checkpoint/random_weights.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>

#include "base/check.h"

namespace lockstep {
namespace {

// value = centre + spread * u, u uniform in [-1, 1).
struct Distribution {
  float centre;
  float spread;
};

// The number of input features that an output sums over.
int64_t inputs_of(const program::Piece& piece) {
  const int rank = piece.source_shape_size();
  const int axis = piece.transpose() ? rank - 2 : rank - 1;
  return axis < 0 ? 1 : std::max<int64_t>(1, piece.source_shape(axis));
}

Distribution distribution_of(const program::Piece& piece, program::Role role) {
  constexpr float kDeviation = 1.7320508f;  // sqrt(3): this spread has standard deviation 1.
  switch (role) {
    case program::NORM:
      return {1.0f, 0.1f};
    case program::BIAS:
      return {0.0f, 0.02f};
    case program::EMBEDDING:
    case program::POSITIONS:
      return {0.0f, kDeviation};
    default:
      return {0.0f, kDeviation / std::sqrt(static_cast<float>(inputs_of(piece)))};
  }
}

uint64_t mix(uint64_t x) {  // The mixer of splitmix64.
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t hash_name(std::string_view name) {  // FNV-1a.
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

void fill_row(uint64_t key, int64_t col_begin, int64_t count, Distribution distribution,
              float* out) {
  const auto low = static_cast<uint32_t>(key);
  const auto high = static_cast<uint32_t>(key >> 32);
  const auto first = static_cast<uint32_t>(col_begin);
  const float scale = distribution.spread * 0x1p-23f;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t x = low + (first + static_cast<uint32_t>(i)) * 0x9e3779b9u;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x ^= high;  // Otherwise two rows would be shifted copies of each other.
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    // 24 bits with sign, which a float represents exactly.
    const int32_t drawn = static_cast<int32_t>(x ^ (x >> 16)) >> 8;
    out[i] = distribution.centre + static_cast<float>(drawn) * scale;
  }
}

}  // namespace

void RandomWeights::read(const program::Piece& piece, program::Role role,
                         const Rectangle& rectangle, float* out, int64_t out_stride) const {
  LOCKSTEP_CHECK(rectangle.inside(INT64_MAX, INT64_MAX));
  const Distribution distribution = distribution_of(piece, role);
  const uint64_t source_key = mix(seed_ ^ mix(hash_name(piece.source())));
  const auto row_key = [&](int64_t row) {
    return mix(source_key + static_cast<uint64_t>(row) * 0x9e3779b97f4a7c15u);
  };
  if (!piece.transpose()) {
    for (int64_t r = 0; r < rectangle.rows(); ++r) {
      fill_row(row_key(rectangle.row_begin + r), rectangle.col_begin, rectangle.cols(),
               distribution, out + r * out_stride);
    }
    return;
  }
  constexpr int64_t kTile = 64;
  const auto tile = std::make_unique_for_overwrite<float[]>(kTile * kTile);
  for (int64_t row = 0; row < rectangle.rows(); row += kTile) {
    const int64_t rows = std::min(kTile, rectangle.rows() - row);
    for (int64_t col = 0; col < rectangle.cols(); col += kTile) {
      const int64_t cols = std::min(kTile, rectangle.cols() - col);
      for (int64_t r = 0; r < rows; ++r) {
        fill_row(row_key(rectangle.row_begin + row + r), rectangle.col_begin + col, cols,
                 distribution, &tile[r * cols]);
      }
      transpose(tile.get(), rows, cols, out + col * out_stride + row, out_stride);
    }
  }
}

}  // namespace lockstep
