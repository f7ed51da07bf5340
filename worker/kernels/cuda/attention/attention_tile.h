// SPDX-License-Identifier: Apache-2.0
// The work of a block of threads of attention_mma.cu. It is a tile: some rows of one sequence, with
// all query heads of one KV head (blockIdx.y). Each pair of a row and a head is a row of the
// products.
#pragma once

#include <bit>

#include "worker/kernels/cuda/attention/attention_pages.h"
#include "worker/kernels/cuda/warp.h"

namespace lockstep::LOCKSTEP_TARGET {

struct TiledAttention : AttentionParams {
  float* parts = nullptr;  // The splits' sums, if each split has a block of threads; else null.
  int64_t splits = 1;      // Splits of the longest sequence, if each has a block of threads.
  int64_t tile_rows = 1;   // The maximum of a tile's rows.
  int64_t tiles = 0;       // An upper bound of the number of tiles.
  int64_t heads_at = 0;    // Offset of list_heads()'s result in shared memory.
};

// The tile's rows together see the keys first_key to last_key. Every one of its rows sees the keys
// all_from to all_to.
struct Tile {
  StepSequence sequence;
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t first_key = 0, last_key = -1;
  int32_t all_from = 0, all_to = -1;

  __device__ bool sees(int32_t key) const { return first_key <= key && key <= last_key; }
};

// The tiles of sequence i are numbered from first_row / tile_rows + i on. So there are enough
// numbers for these tiles before those of sequence i + 1. One number may remain unused: its tile
// has no rows.
__device__ inline Tile tile_of(const TiledAttention& params, int64_t number) {
  int64_t low = 0, high = params.step.sequence_count;  // The sequence is in [low, high).
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    const int64_t first = params.step.sequences[middle].first_row / params.tile_rows + middle;
    (first <= number ? low : high) = middle;
  }
  Tile tile{.sequence = params.step.sequences[low]};
  const StepSequence& sequence = tile.sequence;
  const int64_t begin = (number - sequence.first_row / params.tile_rows - low) * params.tile_rows;
  if (begin >= sequence.rows) return tile;
  tile.rows = static_cast<int32_t>(min(params.tile_rows, sequence.rows - begin));
  tile.first_row = static_cast<int32_t>(sequence.first_row + begin);
  const int64_t first = sequence.first_position + begin, last = first + tile.rows - 1;
  tile.first_key = static_cast<int32_t>(first_seen(params.attrs, first));
  tile.last_key = static_cast<int32_t>(sequence.last_seen(last));
  tile.all_from = static_cast<int32_t>(first_seen(params.attrs, last));
  tile.all_to = static_cast<int32_t>(sequence.last_seen(first));
  return tile;
}

// A row and a head, which see the keys `first` to `last`; none if `row` is -1.
struct Pair {
  int32_t row = -1;
  int32_t head = 0;
  int32_t position = 0;
  int32_t first = 0, last = -1;

  __device__ bool sees(int32_t key) const { return first <= key && key <= last; }
};

// `heads` is the result of list_heads().
__device__ inline Pair pair_of(const TiledAttention& params, const Tile& tile, const int32_t* heads,
                               int32_t head_count, int32_t number) {
  Pair pair;
  if (number >= tile.rows * head_count) return pair;
  const int32_t row = number / head_count;
  const int64_t position =
      tile.sequence.first_position + tile.first_row + row - tile.sequence.first_row;
  pair.row = tile.first_row + row;
  pair.head = heads[number % head_count];
  pair.position = static_cast<int32_t>(position);
  pair.first = static_cast<int32_t>(first_seen(params.attrs, position));
  pair.last = static_cast<int32_t>(tile.sequence.last_seen(position));
  return pair;
}

// Lists the query heads of the block's KV head, in the order of kv_head_of. All threads call it.
__device__ inline void list_heads(const AttentionAttrs& attrs, int32_t* heads, int32_t& count) {
  if (threadIdx.x < kWarp) {
    const auto lane = static_cast<int32_t>(threadIdx.x);
    int32_t listed = 0;
    for (int32_t first = 0; first < attrs.heads; first += kWarp) {
      const int32_t head = first + lane;
      const bool own =
          head < attrs.heads && attrs.kv_head_of[head] == static_cast<int32_t>(blockIdx.y);
      const unsigned lanes = lanes_with(own);
      if (own) heads[listed + std::popcount(lanes & ((1u << lane) - 1))] = head;
      listed += std::popcount(lanes);
    }
    if (lane == 0) count = listed;
  }
  __syncthreads();
}

}  // namespace lockstep::LOCKSTEP_TARGET
