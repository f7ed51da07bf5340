// SPDX-License-Identifier: Apache-2.0
// Attention for steps with few rows. A block of threads processes one row, one KV head and one
// split of the keys, in rounds: in each round, each of its four warps has one block of keys. Heads
// of up to 128 columns take one round, wider ones two. A warp copies its keys, multiplies them, and
// then copies their values to the same place. The warps exchange their highest scores. Then each
// warp computes the probabilities of its block, relative to the highest score in this block and
// those before it, and the warps exchange the probabilities. Then each warp adds the values of all
// four blocks in order, for a quarter of the columns. So sums have the order of attention_mma.cu,
// although four warps share the work of one.
#include "worker/kernels/cuda/attention/attention_codes.h"
#include "worker/kernels/cuda/attention/attention_products.h"
#include "worker/kernels/cuda/attention/attention_rows.h"
#include "worker/kernels/cuda/warp.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kPageGroup = 16;  // A group of this many keys is in one page.
template <int kDim>
constexpr int kBlocks = kSplitKeys / kKeys<kDim>;  // The blocks of a split.
static_assert(kBlocks<kNarrow> % kWarps == 0 && kBlocks<kMiddle> % kWarps == 0 &&
              kBlocks<kWide> % kWarps == 0);

template <typename T, int kDim>
struct Shared {
  BF16 blocks[kWarps][kKeys<kDim> * kDim];  // A warp's keys, then its values.
  Words4 probabilities[kWarps][kKeys<kDim> / 16][kWarp];
  float highest[kWarps][kPairs];
  float totals[kWarps][kPairs];
  int32_t head_count;
  RowScales<T, kKeys<kDim>> scales[kWarps];  // A warp's keys' scales, then its values'.
};

// A row's keys in a split.
struct RowSplit {
  const int32_t* pages;
  int32_t row, position;
  int32_t first, last;  // The keys that the row sees, in all splits.
  int32_t split;
  bool exists;

  __device__ bool sees(int32_t key) const { return first <= key && key <= last; }
  // The row sees keys of blocks [begin(), end()) of the split.
  template <int kDim>
  __device__ int begin() const {
    return static_cast<int>(max(0, first / kKeys<kDim> - split * kBlocks<kDim>));
  }
  template <int kDim>
  __device__ int end() const {
    return static_cast<int>(min(kBlocks<kDim>, last / kKeys<kDim> + 1 - split * kBlocks<kDim>));
  }
};

// The part of a split that is processed at once. Warps [begin, end) have a block of keys; the first
// warp has, or would have, the block at key `first_key`.
struct Round {
  int begin, end;
  int first_key;

  __device__ bool has(int warp) const { return begin <= warp && warp < end; }
};

template <int kDim>
__device__ Round round_of(const RowSplit& keys, int number) {
  const int first = number * kWarps;
  return {.begin = static_cast<int>(max(0, keys.begin<kDim>() - first)),
          .end = static_cast<int>(min(kWarps, keys.end<kDim>() - first)),
          .first_key = (keys.split * kBlocks<kDim> + first) * kKeys<kDim>};
}

__device__ RowSplit row_split(const TiledAttention& params) {
  const int64_t rows = params.step.rows, row = blockIdx.x % rows, split = blockIdx.x / rows;
  const int64_t position = params.step.positions[row];
  const StepSequence& sequence = params.step.sequences[params.step.sequence_of_row[row]];
  const int64_t first = first_seen(params.attrs, position), last = sequence.last_seen(position);
  return {.pages = sequence.pages,
          .row = static_cast<int32_t>(row),
          .position = static_cast<int32_t>(position),
          .first = static_cast<int32_t>(first),
          .last = static_cast<int32_t>(last),
          .split = static_cast<int32_t>(split),
          .exists = first / kSplitKeys <= split && split <= last / kSplitKeys};
}

// Starts to copy a warp's block of keys (`side` 0) or values (1), which begins at `first_key`. Keys
// that the row does not see are zeros.
template <typename T, int kDim>
__device__ void copy_own(const TiledAttention& params, const RowSplit& keys, int first_key,
                         int side, BF16* to, RowScales<T, kKeys<kDim>>& scales) {
  constexpr int kCopies = kDim / kPerCopy<T>, kRows = kWarp / kCopies;
  const auto tokens = static_cast<uint32_t>(params.state.page_tokens);
  const auto dim = static_cast<int>(params.attrs.head_dim);
  const int lane = static_cast<int>(threadIdx.x % kWarp), copy = lane % kCopies;
  const int64_t head_at = (int64_t{blockIdx.y} * 2 + side) * dim * tokens + copy * kPerCopy<T>;
#pragma unroll
  for (int group = 0; group < kKeys<kDim> / kPageGroup; ++group) {
    const int begin = first_key + group * kPageGroup;
    const std::byte* from = params.state.data;
    if (begin <= keys.last && begin + kPageGroup > keys.first) {
      const auto at = static_cast<uint32_t>(begin);
      from += keys.pages[at / tokens] * params.state.page_bytes +
              (head_at + at % tokens * dim) * int64_t{sizeof(T)};
    }
#pragma unroll
    for (int r = lane / kCopies; r < kPageGroup; r += kRows) {
      const bool there = keys.sees(begin + r) && copy * kPerCopy<T> < dim;
      const int64_t offset = there ? r * dim * int64_t{sizeof(T)} : 0;
      copy_async(copied_to<T, kDim>(to, group * kPageGroup + r, copy), from + offset,
                 there ? 16 : 0);
    }
  }
  if constexpr (kIsCode<T>) {
    if (lane < kKeys<kDim> / 4) {
      const int key = first_key + lane * 4;
      const bool there = key + 3 >= keys.first && key <= keys.last;
      copy_scales(params, keys.pages, key, side, there, scales.of + lane * 4);
    }
  }
  commit_copies();
}

// Waits for a warp's copies. If they are codes, decodes them.
template <typename T, int kDim>
__device__ void receive_own(const RowSplit& keys, int first_key, int warp,
                            Shared<T, kDim>& shared) {
  wait_copies<0>();
  warp_meet();
  if constexpr (kIsCode<T>) {
    decode_block<kDim, kWarp>(
        shared.blocks[warp], shared.scales[warp], static_cast<int>(threadIdx.x % kWarp),
        [&](int row) { return keys.sees(first_key + row); }, [] { warp_meet(); });
    warp_meet();
  }
}

__device__ Pair pair_at(const RowSplit& keys, const int32_t* heads, int32_t head_count,
                        int32_t number) {
  if (number >= head_count) return {};
  return {.row = keys.row,
          .head = heads[number],
          .position = keys.position,
          .first = keys.first,
          .last = keys.last};
}

// Computes a warp's scores for its block of keys, and the highest score of each pair. The keys are
// already being copied. After they have been read, begins to copy the values.
template <typename T, int kDim>
__device__ void multiply_own(const TiledAttention& params, const RowSplit& keys, int first_key,
                             const Pair (&pairs)[2], int warp, Shared<T, kDim>& shared,
                             Products<kKeys<kDim>>& scores) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  Words4 queries[kDim / 16];
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) queries[step] = query_words(params, pairs, step);
  receive_own(keys, first_key, warp, shared);
  multiply_keys<kDim>(
      shared.blocks[warp], [&](int step) { return queries[step]; }, scores);
  warp_meet();
  copy_own<T, kDim>(params, keys, first_key, 1, shared.blocks[warp], shared.scales[warp]);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float highest = take_scores<kKeys<kDim>>(params.attrs, pairs[half], half,
                                                   first_key + lane % 4 * 2, -kInfinity, scores);
    if (lane % 4 == 0) shared.highest[warp][lane / 4 + half * 8] = highest;
  }
}

// Fills `highest`: for each block, the highest score of the pair in this block and those before it.
// `before` is the highest in earlier rounds.
template <typename T, int kDim>
__device__ void list_highest(const Round& round, const Shared<T, kDim>& shared, int pair,
                             float before, float (&highest)[kWarps]) {
#pragma unroll
  for (int b = 0; b < kWarps; ++b) {
    if (round.has(b)) before = Max::of(before, shared.highest[b][pair]);
    highest[b] = before;
  }
}

// A warp's probabilities and their sums.
template <typename T, int kDim>
__device__ void weigh_own(const float (&highest)[2][kWarps], int warp, Shared<T, kDim>& shared,
                          const Products<kKeys<kDim>>& scores) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  uint32_t probabilities[kKeys<kDim> / 8][2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float own = 0;
#pragma unroll
    for (int b = 0; b < kWarps; ++b) own = b == warp ? highest[half][b] : own;
    const float total = take_probabilities<kKeys<kDim>>(scores, half, base_of(own), probabilities);
    if (lane % 4 == 0) shared.totals[warp][lane / 4 + half * 8] = total;
  }
#pragma unroll
  for (int step = 0; step < kKeys<kDim> / 16; ++step) {
    shared.probabilities[warp][step][lane] = probability_words(probabilities, step);
  }
}

// Adds all blocks' values in order, for a warp's columns.
template <typename T, int kDim>
__device__ void add_blocks(const Round& round, const float (&highest)[2][kWarps], int warp,
                           const Shared<T, kDim>& shared, Softmax (&softmax)[2],
                           Products<kDim / kWarps>& sums) {
  constexpr int kCols = kDim / kWarps;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int b = 0; b < kWarps; ++b) {
    if (!round.has(b)) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float shrink = exp_of(softmax[half].highest - base_of(highest[half][b]));
      const float total = shared.totals[b][lane / 4 + half * 8];
      softmax[half] = {highest[half][b], fmaf(softmax[half].total, shrink, total)};
#pragma unroll
      for (int i = 0; i < kCols / 4; ++i) {
        float& sum = sums[i / 2][half * 2 + i % 2];
        sum = sum * shrink;
      }
    }
    add_values<kDim, kCols>(
        shared.blocks[b], warp * kCols / 8,
        [&](int step) { return shared.probabilities[b][step][lane]; }, sums);
  }
}

// Stores a warp's columns of a pair's output, or of the pair's part in scratch.
template <int kCols>
__device__ void store(const TiledAttention& params, const Pair& pair, int half, int split, int warp,
                      const Softmax& softmax, const Products<kCols>& sums) {
  if (pair.row < 0) return;
  const auto dim = static_cast<int>(params.attrs.head_dim);
  const int in_four = static_cast<int>(threadIdx.x % 4);
  float* part = params.parts == nullptr ? nullptr : part_of(params, pair.row, pair.head, split);
  const Quotient quotient = quotient_of(params, softmax, pair.head);
#pragma unroll
  for (int i = 0; i < kCols / 4; ++i) {
    const int column = warp * kCols + i / 2 * 8 + in_four * 2 + i % 2;
    const float sum = sums[i / 2][half * 2 + i % 2];
    if (column >= dim) continue;
    if (part != nullptr) {
      part[column] = sum;
    } else {
      set_element(params.out, pair.row, int64_t{pair.head} * dim + column, quotient.of(sum));
    }
  }
  if (part != nullptr && warp == 0 && in_four == 0) {
    part[dim] = softmax.highest;
    part[dim + 1] = softmax.total;
  }
}

// Processes a round, whose keys are already being copied.
template <typename T, int kDim>
__device__ void attend_round(const TiledAttention& params, const RowSplit& keys, const Round& round,
                             const Pair (&pairs)[2], Shared<T, kDim>& shared, Softmax (&softmax)[2],
                             Products<kDim / kWarps>& sums) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int warp = static_cast<int>(threadIdx.x / kWarp);
  const int first_key = round.first_key + warp * kKeys<kDim>;
  Products<kKeys<kDim>> scores = {};
  if (round.has(warp)) multiply_own(params, keys, first_key, pairs, warp, shared, scores);
  __syncthreads();  // The highest scores of all blocks are in shared memory.
  float highest[2][kWarps];
  list_highest(round, shared, lane / 4, softmax[0].highest, highest[0]);
  list_highest(round, shared, lane / 4 + 8, softmax[1].highest, highest[1]);
  if (round.has(warp)) {
    weigh_own(highest, warp, shared, scores);
    receive_own(keys, first_key, warp, shared);
  }
  __syncthreads();  // The probabilities and values are in shared memory.
  add_blocks(round, highest, warp, shared, softmax, sums);
}

template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads) rows_kernel(TiledAttention params) {
  auto& shared = *reinterpret_cast<Shared<T, kDim>*>(dynamic_shared());
  auto* heads = reinterpret_cast<int32_t*>(dynamic_shared() + sizeof(Shared<T, kDim>));
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int warp = static_cast<int>(threadIdx.x / kWarp);
  const RowSplit keys = row_split(params);
  if (!keys.exists) return;
  constexpr bool kOneRound = kBlocks<kDim> == kWarps;
  const int begin = kOneRound ? 0 : keys.begin<kDim>() / kWarps;
  const int last = kOneRound ? 0 : (keys.end<kDim>() - 1) / kWarps;
  const auto copy_keys = [&](int number) {
    const Round round = round_of<kDim>(keys, number);
    if (!round.has(warp)) return;
    copy_own<T, kDim>(params, keys, round.first_key + warp * kKeys<kDim>, 0, shared.blocks[warp],
                      shared.scales[warp]);
  };
  copy_keys(begin);
  list_heads(params.attrs, heads, shared.head_count);
  for (int pass = 0; pass < shared.head_count; pass += kPairs) {
    const Pair pairs[2] = {pair_at(keys, heads, shared.head_count, pass + lane / 4),
                           pair_at(keys, heads, shared.head_count, pass + lane / 4 + 8)};
    Softmax softmax[2];
    Products<kDim / kWarps> sums = {};
    for (int number = begin; number <= last; ++number) {
      if (pass > 0 || number > begin) {
        __syncthreads();  // All warps have read the values.
        copy_keys(number);
      }
      attend_round<T, kDim>(params, keys, round_of<kDim>(keys, number), pairs, shared, softmax,
                            sums);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      store<kDim / kWarps>(params, pairs[half], half, keys.split, warp, softmax[half], sums);
    }
  }
}

template <typename T, int kDim>
const char* launch_rows(const TiledAttention& params, void* queue) {
  const int64_t bytes = sizeof(Shared<T, kDim>) + params.attrs.heads * int64_t{sizeof(int32_t)};
  return launch(rows_kernel<T, kDim>,
                {params.step.rows * params.splits, params.attrs.kv_heads, bytes}, kThreads, queue,
                params);
}

}  // namespace

bool takes_rows(const TiledAttention& params) {
  const bool stores_parts = params.step.longest <= kSplitKeys || params.parts != nullptr;
  return params.state.page_tokens % kPageGroup == 0 && stores_parts;
}

template <typename T>
const char* attend_rows(const TiledAttention& params, void* queue) {
  if (params.attrs.head_dim <= kNarrow) return launch_rows<T, kNarrow>(params, queue);
  if (params.attrs.head_dim <= kMiddle) return launch_rows<T, kMiddle>(params, queue);
  return launch_rows<T, kWide>(params, queue);
}
template const char* attend_rows<BF16>(const TiledAttention& params, void* queue);
template const char* attend_rows<Code>(const TiledAttention& params, void* queue);

}  // namespace lockstep::LOCKSTEP_TARGET
