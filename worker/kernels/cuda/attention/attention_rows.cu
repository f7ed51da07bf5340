// SPDX-License-Identifier: Apache-2.0
// Attention for steps with few rows. A block of threads processes one row, one KV head and one
// split of the keys: each of its four warps has one block of keys. A warp copies its keys,
// multiplies them, and then copies their values to the same place. The warps exchange their highest
// scores. Then each warp computes the probabilities of its block, relative to the highest score in
// this block and those before it, and the warps exchange the probabilities. Then each warp adds the
// values of all four blocks in order, for a quarter of the columns. So sums have the order of
// attention_mma.cu, although four warps share the work of one.
#include "worker/kernels/cuda/attention/attention_codes.h"
#include "worker/kernels/cuda/attention/attention_products.h"
#include "worker/kernels/cuda/attention/attention_rows.h"
#include "worker/kernels/cuda/warp.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kBlockKeys = kKeys<kMiddle>;
constexpr int kPageGroup = 16;  // A group of this many keys is in one page.
static_assert(kKeys<kNarrow> == kBlockKeys && kWarps * kBlockKeys == kSplitKeys);

template <typename T, int kDim>
struct Shared {
  BF16 blocks[kWarps][kBlockKeys * kDim];  // A warp's keys, then its values.
  Words4 probabilities[kWarps][kBlockKeys / 16][kWarp];
  float highest[kWarps][kPairs];
  float totals[kWarps][kPairs];
  int32_t head_count;
  RowScales<T, kBlockKeys> scales[kWarps];  // A warp's keys' scales, then its values'.
};

// A row's keys in a split.
struct RowSplit {
  const int32_t* pages;
  int32_t row, position;
  int32_t first, last;  // The keys that the row sees, in all splits.
  int32_t split;
  bool exists;

  __device__ bool sees(int32_t key) const { return first <= key && key <= last; }
  // Blocks [begin(), end()) of the four have keys that the row sees.
  __device__ int begin() const {
    return static_cast<int>(max(0, first / kBlockKeys - split * kWarps));
  }
  __device__ int end() const {
    return static_cast<int>(min(kWarps, last / kBlockKeys + 1 - split * kWarps));
  }
};

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

// Starts to copy a warp's block of keys (`side` 0) or values (1). Keys that the row does not see
// are zeros.
template <typename T, int kDim>
__device__ void copy_own(const TiledAttention& params, const RowSplit& keys, int block, int side,
                         BF16* to, RowScales<T, kBlockKeys>& scales) {
  constexpr int kCopies = kDim / kPerCopy<T>, kRows = kWarp / kCopies;
  const auto tokens = static_cast<uint32_t>(params.state.page_tokens);
  const auto dim = static_cast<int>(params.attrs.head_dim);
  const int lane = static_cast<int>(threadIdx.x % kWarp), copy = lane % kCopies;
  const int64_t head_at = (int64_t{blockIdx.y} * 2 + side) * dim * tokens + copy * kPerCopy<T>;
#pragma unroll
  for (int group = 0; group < kBlockKeys / kPageGroup; ++group) {
    const int begin = block * kBlockKeys + group * kPageGroup;
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
    if (lane < kBlockKeys / 4) {
      const int key = block * kBlockKeys + lane * 4;
      const bool there = key + 3 >= keys.first && key <= keys.last;
      copy_scales(params, keys.pages, key, side, there, scales.of + lane * 4);
    }
  }
  commit_copies();
}

// Waits for a warp's copies. If they are codes, decodes them.
template <typename T, int kDim>
__device__ void receive_own(const RowSplit& keys, int warp, Shared<T, kDim>& shared) {
  wait_copies<0>();
  warp_meet();
  if constexpr (kIsCode<T>) {
    const int first = (keys.split * kWarps + warp) * kBlockKeys;
    decode_block<kDim, kWarp>(
        shared.blocks[warp], shared.scales[warp], static_cast<int>(threadIdx.x % kWarp),
        [&](int row) { return keys.sees(first + row); }, [] { warp_meet(); });
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
__device__ void multiply_own(const TiledAttention& params, const RowSplit& keys,
                             const Pair (&pairs)[2], int warp, Shared<T, kDim>& shared,
                             Products<kBlockKeys>& scores) {
  const int lane = static_cast<int>(threadIdx.x % kWarp), block = keys.split * kWarps + warp;
  Words4 queries[kDim / 16];
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) queries[step] = query_words(params, pairs, step);
  receive_own<T, kDim>(keys, warp, shared);
  multiply_keys<kDim>(
      shared.blocks[warp], [&](int step) { return queries[step]; }, scores);
  warp_meet();
  copy_own<T, kDim>(params, keys, block, 1, shared.blocks[warp], shared.scales[warp]);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float highest = take_scores<kBlockKeys>(
        params.attrs, pairs[half], half, block * kBlockKeys + lane % 4 * 2, -kInfinity, scores);
    if (lane % 4 == 0) shared.highest[warp][lane / 4 + half * 8] = highest;
  }
}

// Fills `highest`: for each block, the highest score of the pair in this block and those before it.
template <typename T, int kDim>
__device__ void list_highest(const RowSplit& keys, const Shared<T, kDim>& shared, int pair,
                             float (&highest)[kWarps]) {
  float before = -kInfinity;
#pragma unroll
  for (int b = 0; b < kWarps; ++b) {
    const bool exists = keys.begin() <= b && b < keys.end();
    if (exists) before = Max::of(before, shared.highest[b][pair]);
    highest[b] = before;
  }
}

// A warp's probabilities and their sums.
template <typename T, int kDim>
__device__ void weigh_own(const float (&highest)[2][kWarps], int warp, Shared<T, kDim>& shared,
                          const Products<kBlockKeys>& scores) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  uint32_t probabilities[kBlockKeys / 8][2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float own = 0;
#pragma unroll
    for (int b = 0; b < kWarps; ++b) own = b == warp ? highest[half][b] : own;
    const float total = take_probabilities<kBlockKeys>(scores, half, base_of(own), probabilities);
    if (lane % 4 == 0) shared.totals[warp][lane / 4 + half * 8] = total;
  }
#pragma unroll
  for (int step = 0; step < kBlockKeys / 16; ++step) {
    shared.probabilities[warp][step][lane] = probability_words(probabilities, step);
  }
}

// Adds all blocks' values in order, for a warp's columns.
template <typename T, int kDim>
__device__ void add_blocks(const RowSplit& keys, const float (&highest)[2][kWarps], int warp,
                           const Shared<T, kDim>& shared, Softmax (&softmax)[2],
                           Products<kDim / kWarps>& sums) {
  constexpr int kCols = kDim / kWarps;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int b = 0; b < kWarps; ++b) {
    if (b < keys.begin() || b >= keys.end()) continue;
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

template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads) rows_kernel(TiledAttention params) {
  auto& shared = *reinterpret_cast<Shared<T, kDim>*>(dynamic_shared());
  auto* heads = reinterpret_cast<int32_t*>(dynamic_shared() + sizeof(Shared<T, kDim>));
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int warp = static_cast<int>(threadIdx.x / kWarp);
  const RowSplit keys = row_split(params);
  if (!keys.exists) return;
  const bool has_block = keys.begin() <= warp && warp < keys.end();
  const int block = keys.split * kWarps + warp;
  if (has_block) {
    copy_own<T, kDim>(params, keys, block, 0, shared.blocks[warp], shared.scales[warp]);
  }
  list_heads(params.attrs, heads, shared.head_count);
  for (int pass = 0; pass < shared.head_count; pass += kPairs) {
    const Pair pairs[2] = {pair_at(keys, heads, shared.head_count, pass + lane / 4),
                           pair_at(keys, heads, shared.head_count, pass + lane / 4 + 8)};
    Products<kBlockKeys> scores = {};
    if (has_block) multiply_own(params, keys, pairs, warp, shared, scores);
    __syncthreads();  // The highest scores of all blocks are in shared memory.
    float highest[2][kWarps];
    list_highest(keys, shared, lane / 4, highest[0]);
    list_highest(keys, shared, lane / 4 + 8, highest[1]);
    if (has_block) {
      weigh_own(highest, warp, shared, scores);
      receive_own(keys, warp, shared);
    }
    __syncthreads();  // The probabilities and values are in shared memory.
    Softmax softmax[2];
    Products<kDim / kWarps> sums = {};
    add_blocks(keys, highest, warp, shared, softmax, sums);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      store<kDim / kWarps>(params, pairs[half], half, keys.split, warp, softmax[half], sums);
    }
    if (pass + kPairs >= shared.head_count) return;
    __syncthreads();  // All warps have read the values.
    if (has_block) {
      copy_own<T, kDim>(params, keys, block, 0, shared.blocks[warp], shared.scales[warp]);
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
  return params.attrs.head_dim <= kMiddle && params.state.page_tokens % kPageGroup == 0 &&
         stores_parts;
}

template <typename T>
const char* attend_rows(const TiledAttention& params, void* queue) {
  return params.attrs.head_dim <= kNarrow ? launch_rows<T, kNarrow>(params, queue)
                                          : launch_rows<T, kMiddle>(params, queue);
}
template const char* attend_rows<BF16>(const TiledAttention& params, void* queue);
template const char* attend_rows<Code>(const TiledAttention& params, void* queue);

}  // namespace lockstep::LOCKSTEP_TARGET
