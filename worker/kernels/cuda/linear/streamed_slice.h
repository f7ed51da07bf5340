// SPDX-License-Identifier: Apache-2.0
// One warp's work in linear_stream.h: kStripes stripes of the weights over one slice of K, times
// kTiles * 8 rows of x.
#pragma once

#include "worker/kernels/cuda/linear/linear_product.h"

namespace lockstep::LOCKSTEP_TARGET {

// The number of a warp's sums. They are float32, ordered as [stripe][tile][number in C][lane].
template <int kStripes, int kTiles>
inline constexpr int kStreamSums = kStripes* kTiles * 4 * kWarp;

template <DType kWeight, typename T, int kStripes, int kTiles>
struct StreamedSlice {
  // kAhead units of weights (2 to 8 KiB per warp) and kHalvesAhead half units of x are loaded
  // before they are multiplied.
  static constexpr int kAhead = WeightWords<kWeight>::kKind.bits == 16 || kStripes > 1 ? 2 : 4;
  static constexpr int kHalvesAhead = kTiles <= 2 ? 4 : 2;
  static_assert(2 * kAhead % kHalvesAhead == 0);
  const std::byte* stripes[kStripes];
  const uint16_t* x;  // The place of this lane's row and first column.
  int64_t x_tile;     // Numbers from one tile to the next.
  int rows;           // Rows of x from this lane's row on.
  int cols;
  int lane;
  WeightWords<kWeight> ahead[kAhead][kStripes];
  Words4 b[kHalvesAhead][kTiles];
  float sums[kStripes][kTiles][4] = {};

  __device__ StreamedSlice(const Product& product, int first_stripe, int64_t first_row, int in_warp)
      : x_tile(8 * product.x.stride), lane(in_warp) {
    const int64_t row = first_row + lane / 4, left = product.x.rows - row;
    const int col = lane % 4 * 8;
    x = product.x.row<uint16_t>(left > 0 ? row : 0) + col;
    rows = static_cast<int>(left < 8 * kTiles ? left : 8 * kTiles);
    cols = static_cast<int>(product.x.cols) - col;
#pragma unroll
    for (int i = 0; i < kStripes; ++i) {
      const int stripe = min(first_stripe + i, product.stripes() - 1);
      stripes[i] = product.weight + stripe * device::FragmentBytes<kWeight>::stripe(product.x.cols);
#pragma unroll
      for (int unit = 0; unit < kAhead; ++unit) ahead[unit][i].load_head(stripes[i], lane);
    }
  }

  __device__ void load_weights(WeightWords<kWeight> (&words)[kStripes], int unit) const {
    using Bytes = device::FragmentBytes<kWeight>;
#pragma unroll
    for (int i = 0; i < kStripes; ++i) {
      words[i].template load<true>(stripes[i] + Bytes::kHead + unit * Bytes::kUnit, lane);
    }
  }
  // Loads zeros if there is no such row or column.
  __device__ void load_x(Words4 (&words)[kTiles], int half) const {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      words[tile] = {};
      if (tile * 8 >= rows || half * 32 >= cols) continue;
      words[tile] = *reinterpret_cast<const Words4*>(x + tile * x_tile + half * 32);
    }
  }

  __device__ void add_half(const WeightWords<kWeight> (&words)[kStripes],
                           const Words4 (&columns)[kTiles], int half) {
#pragma unroll
    for (int step = 2 * half; step < 2 * half + 2; ++step) {
      uint32_t a[kStripes][4];
#pragma unroll
      for (int i = 0; i < kStripes; ++i) words[i].words_of(step, a[i]);
      add_step<T>(sums, a, columns, step);
    }
  }

  __device__ void add(int begin, int end) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (begin + i < end) load_weights(ahead[i], begin + i);
    }
#pragma unroll
    for (int half = 0; half < kHalvesAhead; ++half) load_x(b[half], 2 * begin + half);
    for (int first = begin; first < end; first += kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int unit = first + i;
        if (unit >= end) break;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          Words4(&columns)[kTiles] = b[(2 * i + half) % kHalvesAhead];
          add_half(ahead[i], columns, half);
          const int next = 2 * unit + half + kHalvesAhead;
          if (next < 2 * end) load_x(columns, next);
        }
        if (unit + kAhead < end) load_weights(ahead[i], unit + kAhead);
      }
    }
  }

  __device__ void give(float* to) const {
#pragma unroll
    for (int stripe = 0; stripe < kStripes; ++stripe) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          to[((stripe * kTiles + tile) * 4 + i) * kWarp + lane] = sums[stripe][tile][i];
        }
      }
    }
  }
};

}  // namespace lockstep::LOCKSTEP_TARGET
