// SPDX-License-Identifier: Apache-2.0
// Blocks of keys or values in shared memory, copied from pages of bfloat16 or int8. Codes are
// copied into the second half of the block's memory. Then bfloat16 numbers replace them, in the
// places from which products read: each is a code times its scale, rounded once.
#pragma once

#include "worker/kernels/cuda/attention/attention_products.h"
#include "worker/kernels/cuda/codes.h"

namespace lockstep::LOCKSTEP_TARGET {

// The scales of a block's rows, if its elements are codes.
template <typename T, int kRows>
struct RowScales {};
template <int kRows>
struct alignas(16) RowScales<Code, kRows> {
  float of[kRows];
};

// The elements of one copy_async().
template <typename T>
inline constexpr int kPerCopy = 16 / static_cast<int>(sizeof(T));

// The place to which elements of a row are copied.
template <typename T, int kDim>
__device__ void* copied_to(BF16* block, int row, int copy) {
  if constexpr (kIsCode<T>) {
    return reinterpret_cast<Code*>(block) + (kKeys<kDim> + row) * kDim + copy * kPerCopy<T>;
  } else {
    return block + place_of<kDim>(row, copy);
  }
}

// Starts to copy the scales of four rows, which are in one page: those of `key` and three later
// ones. If `there` is false, the rows get zeros.
__device__ inline void copy_scales(const TiledAttention& params, const int32_t* pages, int key,
                                   int side, bool there, float* to) {
  const auto at = static_cast<uint32_t>(key);
  const auto tokens = static_cast<uint32_t>(params.state.page_tokens);
  const void* from = params.state.data;
  if (there) from = scales_in(params, pages[at / tokens], blockIdx.y, side) + at % tokens;
  copy_async(to, from, there ? 16 : 0);
}

// Replaces a block's codes by bfloat16 numbers; rows for which sees(row) is false become zeros.
// kThreads threads call it, with their numbers. They work in rounds of whole rows: all read codes,
// meet, and then write. A round writes only over codes of its own rows and of earlier rows.
template <int kDim, int kThreads, typename Sees, typename Meet>
__device__ void decode_block(BF16* block, const RowScales<Code, kKeys<kDim>>& scales, int thread,
                             const Sees& sees, const Meet& meet) {
  constexpr int kChunks = kDim / 8, kAll = kKeys<kDim> * kChunks;
  constexpr int kEach = kAll / kThreads < 8 ? kAll / kThreads : 8;  // Chunks of a thread per round.
  constexpr int kRound = kEach * kThreads;
  static_assert(kAll % kRound == 0 && kRound % kChunks == 0);
  const auto* codes = static_cast<const Words2*>(copied_to<Code, kDim>(block, 0, 0));
#pragma unroll 1
  for (int first = thread; first < kAll; first += kRound) {
    Words2 words[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) words[i] = codes[first + i * kThreads];
    meet();
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int row = (first + i * kThreads) / kChunks, chunk = (first + i * kThreads) % kChunks;
      const auto bits = std::bit_cast<uint32_t>(scales.of[row]);
      const uint32_t scale = sees(row) ? twice(bits >> 16) : 0;
      const Words2 low = scaled_codes(words[i].at[0], scale);
      const Words2 high = scaled_codes(words[i].at[1], scale);
      *reinterpret_cast<Words4*>(block + place_of<kDim>(row, chunk)) = {low.at[0], low.at[1],
                                                                        high.at[0], high.at[1]};
    }
  }
}

}  // namespace lockstep::LOCKSTEP_TARGET
