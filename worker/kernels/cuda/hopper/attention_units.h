// SPDX-License-Identifier: Apache-2.0
// The shared memory of a block of threads of attention_wgmma.cu, and the units of the block's work.
// A unit is up to kUnitPairs pairs of a row and a head, all of one tile (attention_tile.h) and one
// KV head. Each warpgroup that multiplies gets 64 of them.
#pragma once

#include "worker/kernels/cuda/attention/attention_products.h"
#include "worker/kernels/cuda/hopper/wgmma_attention.h"

namespace lockstep::LOCKSTEP_TARGET {

inline constexpr int kBlockKeys = 64;
inline constexpr int kSplitBlocks = kSplitKeys / kBlockKeys;
inline constexpr int kGroups = 2;  // Warpgroups that multiply.
inline constexpr int kGroupPairs = 64;
inline constexpr int kUnitPairs = kGroups * kGroupPairs;
inline constexpr int kMaxListsBytes = 1536;  // Lists of heads.
inline constexpr int kMaxOtherBytes = 2048;  // These lists, barriers and units.

struct WgmmaAttention : TiledAttention {
  bool aligned_pairs = false;  // Each two columns of the output are an aligned word.
};

// The part of a unit that warpgroups read. The tile's rows together see the keys first_key to
// last_key, and every row sees the keys all_from to all_to.
struct AttentionUnit {
  int32_t rows = 0;  // The tile's rows; 0: there is no next unit.
  int32_t first_row = 0;
  int32_t position = 0;  // The first row's position.
  int32_t prefix_rows = 0;
  int32_t first_key = 0, last_key = -1, all_from = 0, all_to = -1;
  int32_t kv_head = 0;
  int32_t first_pair = 0;

  __device__ int begin() const { return first_key / kBlockKeys; }
  __device__ int end() const { return last_key / kBlockKeys + 1; }
  // Whether some row sees a key of the block that another row does not see.
  __device__ bool is_divided(int block) const {
    const int first = block * kBlockKeys, last = first + kBlockKeys - 1;
    return (first > first_key ? first : first_key) < all_from ||
           (last < last_key ? last : last_key) > all_to;
  }
  // Whether some row does not see some key of the block.
  __device__ bool is_masked(int block) const {
    const int first = block * kBlockKeys, last = first + kBlockKeys - 1;
    return first < all_from || last > all_to;
  }
};

// The query heads, ordered by KV head, and the index at which each KV head's list begins.
struct HeadLists {
  int32_t* begins;
  int32_t* heads;

  __device__ int count(int kv_head) const { return begins[kv_head + 1] - begins[kv_head]; }
  __device__ int head(int kv_head, int number) const { return heads[begins[kv_head] + number]; }
};
constexpr int64_t head_lists_bytes(const AttentionAttrs& attrs) {
  return (attrs.kv_heads + 1 + attrs.heads) * int64_t{sizeof(int32_t)};
}

// Keys and values each have a ring of slots. Queries have one or two buffers, with one slot for
// each warpgroup. A slot is a block of 64 rows (wgmma_attention.h). For wide heads, the totals over
// all splits are in shared memory, too. `kBends`: scores have a cap, or heads have slopes.
template <int kColumns, int kQueryBuffers, bool kBends>
struct AttentionShape {
  static constexpr bool kBentScores = kBends;
  static constexpr int kDim = kColumns, kBuffers = kQueryBuffers, kPanels = kDim / 64;
  static constexpr int kThreads = (kGroups + 1) * kWarpgroup;
  static constexpr bool kSharedTotals = kDim > kNarrow;
  static constexpr int kTotalsBytes = kSharedTotals ? kUnitPairs * kDim * 4 : 0;
  static constexpr int kSlot = kPanels * kPanelBytes, kAlign = 1024, kMaxSlots = 4;
  static constexpr int kRest = kMaxWgmmaSharedBytes - kAlign - kMaxOtherBytes - kTotalsBytes;
  static constexpr int kThatFit = (kRest / kSlot - kBuffers * kGroups) / 2;
  static constexpr int kKeySlots = kThatFit < kMaxSlots ? kThatFit : kMaxSlots;
  static constexpr int kValueSlots = kKeySlots;
  static constexpr int kQueriesAt = (kKeySlots + kValueSlots) * kSlot;
  static constexpr int kTotalsAt = kQueriesAt + kBuffers * kGroups * kSlot;
  static constexpr int kBarriersAt = kTotalsAt + kTotalsBytes;
  static constexpr int kUnitsAt =
      kBarriersAt + (kKeySlots * 2 + kValueSlots * 3 + kBuffers * 2) * 8;
  static constexpr int kNanAt = kUnitsAt + kBuffers * static_cast<int>(sizeof(AttentionUnit));
  static constexpr int kListsAt = kNanAt + kValueSlots * 8;
  static_assert(kKeySlots >= 2);

  static constexpr int64_t bytes(const AttentionAttrs& attrs) {
    return kListsAt + head_lists_bytes(attrs) + kAlign;
  }
  static_assert(kListsAt - kBarriersAt + kMaxListsBytes <= kMaxOtherBytes);

  SharedAddress begin;

  __device__ SharedAddress keys(int slot) const { return begin + slot * kSlot; }
  __device__ SharedAddress values(int slot) const { return begin + (kKeySlots + slot) * kSlot; }
  __device__ SharedAddress queries(int buffer, int group) const {
    return begin + kQueriesAt + (buffer * kGroups + group) * kSlot;
  }
  __device__ SharedAddress totals() const { return begin + kTotalsAt; }
  __device__ SharedAddress barrier(int number) const { return begin + kBarriersAt + number * 8; }
  __device__ SharedAddress keys_full(int slot) const { return barrier(slot); }
  __device__ SharedAddress keys_empty(int slot) const { return barrier(kKeySlots + slot); }
  __device__ SharedAddress values_full(int slot) const { return barrier(2 * kKeySlots + slot); }
  __device__ SharedAddress values_empty(int slot) const { return values_full(kValueSlots + slot); }
  // Full when the next masked block of values has arrived and is not cleaned yet.
  __device__ SharedAddress values_raw(int number) const {
    return values_full(2 * kValueSlots + number);
  }
  __device__ SharedAddress queries_full(int buffer) const {
    return values_full(3 * kValueSlots + buffer);
  }
  __device__ SharedAddress queries_empty(int buffer) const {
    return queries_full(kBuffers + buffer);
  }
  __device__ AttentionUnit& unit(int buffer) const {
    return reinterpret_cast<AttentionUnit*>(shared_bytes(begin + kUnitsAt))[buffer];
  }
  // One bit for each key of a masked block: set if a value of the key was not finite.
  __device__ uint32_t (&nan_keys(int slot) const)[2] {
    return reinterpret_cast<uint32_t(*)[2]>(shared_bytes(begin + kNanAt))[slot];
  }
  __device__ HeadLists lists(const AttentionAttrs& attrs) const {
    auto* const first = reinterpret_cast<int32_t*>(shared_bytes(begin + kListsAt));
    return {.begins = first, .heads = first + attrs.kv_heads + 1};
  }
};

}  // namespace lockstep::LOCKSTEP_TARGET
