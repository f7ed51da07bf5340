// SPDX-License-Identifier: Apache-2.0
// The warps of attention_wgmma.cu that clean values and write queries.
#pragma once

#include "worker/kernels/cuda/hopper/attention_units.h"

namespace lockstep::LOCKSTEP_TARGET {

inline constexpr int kQueryThreads = 2 * kWarp;

// A warp that cleans values. The values of a key that no row sees may be anything, even NaN. They
// become zeros, since 0 * NaN would be NaN. If only some rows see a key, its values that are not
// finite become zeros, and such a key is noted in nan_keys().
template <typename Shape>
class ValueCleaner {
 public:
  __device__ explicit ValueCleaner(const Shape& shared)
      : shared_(shared), lane_(static_cast<int>(threadIdx.x % kWarp)) {}

  __device__ void clean(const AttentionUnit& unit) {
#pragma unroll 1
    for (int block = unit.begin(); block < unit.end(); ++block, values_.advance()) {
      if (!unit.is_masked(block)) continue;
      barrier_wait(shared_.values_raw(raw_.stage), raw_.parity);
      raw_.advance();
      clean_block(unit, block);
      publish_writes();
      warp_meet();
      if (lane_ == 0) barrier_arrive_here(shared_.values_full(values_.stage));
    }
  }

 private:
  __device__ void clean_block(const AttentionUnit& unit, int block) const {
    constexpr int kPieces = Shape::kDim / 8;
    const bool divided = unit.is_divided(block);
    std::byte* const slot = shared_bytes(shared_.values(values_.stage));
    uint32_t low_keys = 0, high_keys = 0;
#pragma unroll 1
    for (int i = lane_; i < kBlockKeys * kPieces; i += kWarp) {
      const int row = i / kPieces, key = block * kBlockKeys + row;
      auto& piece = *reinterpret_cast<Words4*>(slot + piece_place(row, i % kPieces));
      if (key < unit.first_key || key > unit.last_key) {
        piece = {};
      } else if (divided && take_out_nan(piece)) {
        (row < 32 ? low_keys : high_keys) |= 1u << row % 32;
      }
    }
#pragma unroll
    for (int half = kWarp / 2; half > 0; half /= 2) {
      low_keys |= __shfl_xor_sync(kAllLanes, low_keys, half);
      high_keys |= __shfl_xor_sync(kAllLanes, high_keys, half);
    }
    if (lane_ < 2) shared_.nan_keys(values_.stage)[lane_] = lane_ == 0 ? low_keys : high_keys;
  }
  // Sets numbers that are not finite to zero. Returns whether there were any.
  __device__ static bool take_out_nan(Words4& piece) {
    bool any = false;
#pragma unroll
    for (uint32_t& word : piece.at) {
      const bool low = (word & 0x7f80) == 0x7f80, high = (word & 0x7f800000) == 0x7f800000;
      if (!low && !high) continue;
      word &= (low ? 0 : 0xffffu) | (high ? 0 : 0xffff0000u);
      any = true;
    }
    return any;
  }

  const Shape shared_;
  const int lane_;
  RingPlace<Shape::kValueSlots> values_, raw_;
};

// Two warps that write queries, rounded like keys, and zeros for pairs and columns that do not
// exist.
template <typename Shape>
class QueryWriter {
 public:
  __device__ QueryWriter(const TiledAttention& params, const Shape& shared, int thread)
      : params_(params), shared_(shared), thread_(thread) {}

  __device__ void write(const AttentionUnit& unit) {
    barrier_wait(shared_.queries_empty(at_.stage), at_.parity ^ 1);
    if (thread_ == 0) shared_.unit(at_.stage) = unit;
    if (unit.rows > 0) write_queries(unit);
    publish_writes();
    warp_meet();
    if (thread_ % kWarp == 0) barrier_arrive_here(shared_.queries_full(at_.stage));
    at_.advance();
  }

 private:
  __device__ void write_queries(const AttentionUnit& unit) const {
    constexpr int kPieces = Shape::kDim / 8;
    const HeadLists lists = shared_.lists(params_.attrs);
    const int count = lists.count(unit.kv_head);
    const int piece = thread_ % kPieces, dim = static_cast<int>(params_.attrs.head_dim);
#pragma unroll 2
    for (int at = thread_ / kPieces; at < kUnitPairs; at += kQueryThreads / kPieces) {
      const int number = unit.first_pair + at;
      Words4 words{};
      if (number < unit.rows * count && piece * 8 < dim) {
        const int head = lists.head(unit.kv_head, number % count);
        words = load(unit.first_row + number / count, head * dim + piece * 8);
      }
      const SharedAddress slot = shared_.queries(at_.stage, at / kGroupPairs);
      *reinterpret_cast<Words4*>(shared_bytes(slot + piece_place(at % kGroupPairs, piece))) = words;
    }
  }
  __device__ Words4 load(int row, int col) const {
    if (params_.q.dtype == DType::kBF16) {
      return *reinterpret_cast<const Words4*>(params_.q.row<BF16>(row) + col);
    }
    struct alignas(16) Numbers4 {
      float at[4];
    };
    const auto* from = reinterpret_cast<const Numbers4*>(params_.q.row<float>(row) + col);
    const Numbers4 low = from[0], high = from[1];
    return {rounded_pair<BF16>(low.at[0], low.at[1]), rounded_pair<BF16>(low.at[2], low.at[3]),
            rounded_pair<BF16>(high.at[0], high.at[1]), rounded_pair<BF16>(high.at[2], high.at[3])};
  }

  const TiledAttention& params_;
  const Shape shared_;
  const int thread_;
  RingPlace<Shape::kBuffers> at_;
};

}  // namespace lockstep::LOCKSTEP_TARGET
