// SPDX-License-Identifier: Apache-2.0
// The products of attention on tensor cores: queries times a block of keys, then probabilities
// times a block of values. Kernels that divide the work among warps in different ways share these
// functions, so all have one order of sums. A warp has kPairs pairs; a lane holds numbers of pairs
// lane / 4 and lane / 4 + 8.
#pragma once

#include "worker/kernels/cuda/attention/attention_tile.h"
#include "worker/kernels/cuda/attention/softmax.h"
#include "worker/kernels/cuda/mma.h"
#include "worker/kernels/cuda/sizes.h"

namespace lockstep::LOCKSTEP_TARGET {

inline constexpr int kPairs = 16;
inline constexpr int kSplitKeys = device::kSplitKeys;
inline constexpr int kNarrow = 64, kMiddle = 128, kWide = device::kMaxMmaDim;

// Keys of a block: wide heads leave less shared memory.
template <int kDim>
inline constexpr int kKeys = kDim <= kMiddle ? 64 : 32;

// A thread's elements of the products: for two pairs, two of every eight columns.
template <int kCols>
using Products = float[kCols / 8][4];

// The index of eight columns of a row in a block of keys or values. This layout puts the same
// columns of eight rows into different banks.
template <int kDim>
__device__ int place_of(int row, int chunk) {
  return (row * (kDim / 8) + (chunk ^ row % 8)) * 8;
}

// A step's words of two pairs' queries, rounded like keys.
__device__ inline Words4 query_words(const TiledAttention& params, const Pair (&pairs)[2],
                                     int step) {
  const auto dim = static_cast<int>(params.attrs.head_dim);
  const auto two = [&](const Pair& pair, int column) {
    if (pair.row < 0 || column >= dim) return 0u;
    const int64_t first = int64_t{pair.head} * dim + column;
    if (params.q.dtype == DType::kBF16) {
      return *reinterpret_cast<const uint32_t*>(params.q.row<BF16>(pair.row) + first);
    }
    const float* query = params.q.row<float>(pair.row) + first;
    return rounded_pair<BF16>(query[0], query[1]);
  };
  const int column = step * 16 + static_cast<int>(threadIdx.x % 4) * 2;
  return {two(pairs[0], column), two(pairs[1], column), two(pairs[0], column + 8),
          two(pairs[1], column + 8)};
}

// scores += queries times keys. query(step) returns the queries' words for a step of 16 columns.
template <int kDim, typename Query>
__device__ void multiply_keys(const BF16* keys, const Query& query, Products<kKeys<kDim>>& scores) {
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
    const Words4 words = query(step);
#pragma unroll
    for (int n = 0; n < kKeys<kDim> / 8; n += 2) {
      const int row = n * 8 + lane / 16 * 8 + lane % 8, chunk = step * 2 + lane / 8 % 2;
      uint32_t b[4];
      load_matrices(b, keys + place_of<kDim>(row, chunk));
      multiply_add<BF16>(scores[n], words.at, b[0], b[1]);
      multiply_add<BF16>(scores[n + 1], words.at, b[2], b[3]);
    }
  }
}

// Turns the products of one pair into scores, which are -inf for keys that the pair does not see.
// Returns the highest among these scores and `highest`.
template <int kKeyCount>
__device__ float take_scores(const AttentionAttrs& attrs, const Pair& pair, int half, int first_key,
                             float highest, Products<kKeyCount>& scores) {
#pragma unroll
  for (int i = 0; i < kKeyCount / 4; ++i) {
    const int n = i / 2, key = first_key + n * 8 + i % 2;
    float& score = scores[n][half * 2 + i % 2];
    score = pair.sees(key) ? score_of(attrs, pair.head, key - pair.position, score) : -kInfinity;
    highest = Max::of(highest, score);
  }
  return over_lanes<Max, 4>(highest);
}

// The score that probabilities are relative to. If all scores so far are -inf, this is 0, because
// -inf - -inf would be NaN.
__device__ inline float base_of(float highest) { return highest == -kInfinity ? 0.0f : highest; }

// The probabilities of one pair, in pairs of bfloat16. Returns their sum.
template <int kKeyCount>
__device__ float take_probabilities(const Products<kKeyCount>& scores, int half, float base,
                                    uint32_t (&probabilities)[kKeyCount / 8][2]) {
  float total = 0;
#pragma unroll
  for (int n = 0; n < kKeyCount / 8; ++n) {
    const uint32_t two = rounded_pair<BF16>(exp_of(scores[n][half * 2] - base),
                                            exp_of(scores[n][half * 2 + 1] - base));
    total = total + std::bit_cast<float>(two << 16) + std::bit_cast<float>(two & 0xffff0000u);
    probabilities[n][half] = two;
  }
  return over_lanes<Sum, 4>(total);
}

// The words of a step of 16 keys.
template <int kBlocks>
__device__ Words4 probability_words(const uint32_t (&probabilities)[kBlocks][2], int step) {
  const auto &low = probabilities[2 * step], &high = probabilities[2 * step + 1];
  return {low[0], low[1], high[0], high[1]};
}

// sums += probabilities times values, for kCols columns from 8 * first_chunk on. words(step)
// returns the probabilities of a step of 16 keys.
template <int kDim, int kCols, typename Probabilities>
__device__ void add_values(const BF16* values, int first_chunk, const Probabilities& words,
                           Products<kCols>& sums) {
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int step = 0; step < kKeys<kDim> / 16; ++step) {
    const Words4 a = words(step);
#pragma unroll
    for (int n = 0; n < kCols / 8; n += 2) {
      const int chunk = first_chunk + n + lane / 16;
      uint32_t b[4];
      load_matrices_transposed(b, values + place_of<kDim>(step * 16 + lane % 16, chunk));
      multiply_add<BF16>(sums[n], a.at, b[0], b[1]);
      multiply_add<BF16>(sums[n + 1], a.at, b[2], b[3]);
    }
  }
}

// A pair's part in scratch: its sums of a split, then the two numbers of Softmax.
__device__ inline float* part_of(const TiledAttention& params, int64_t row, int64_t head,
                                 int64_t split) {
  const int64_t number = (row * params.attrs.heads + head) * params.splits + split;
  return params.parts + number * device::part_floats(params.attrs.head_dim);
}

__device__ inline Quotient quotient_of(const TiledAttention& params, const Softmax& softmax,
                                       int64_t head) {
  return {softmax, params.sinks.data == nullptr ? nullptr : params.sinks.row<float>(0) + head};
}

}  // namespace lockstep::LOCKSTEP_TARGET
