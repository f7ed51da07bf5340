// SPDX-License-Identifier: Apache-2.0
// Attention on tensor cores, for pages of bfloat16 or int8 (FlashAttention-2, Dao 2023,
// arXiv:2307.08691).
//
// A block of threads computes an online softmax over its tile's keys, one block of keys after
// another. Blocks of keys begin at multiples of their size. Each split of kSplitKeys positions
// starts with an empty state; splits are merged in order. So all sums of a pair (a row and a head)
// have one order, whatever else is in the tile, the step or the chunk. If there are few rows, each
// split has its own block of threads: sums are then stored in scratch, and merge_kernel merges them
// as the tile's block would.
//
// Keys that no pair of the tile sees are loaded as zeros, since pages are undefined there.
// Probabilities are rounded to bfloat16, in numerator and denominator.
#include "worker/kernels/cuda/attention/attention_codes.h"
#include "worker/kernels/cuda/attention/attention_mma.h"
#include "worker/kernels/cuda/attention/attention_products.h"
#include "worker/kernels/cuda/attention/attention_rows.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

// Warps of a full tile: wide heads leave less shared memory.
template <int kDim>
constexpr int kMaxWarps = kDim <= kMiddle ? 4 : 2;

struct alignas(16) Numbers4 {
  float at[4];
};

// The shared memory of a block of threads. `totals` exists only if the block computes several
// splits itself; the list of query heads is stored after this struct.
template <typename T, int kDim, int kWarps>
struct Shared {
  BF16 keys[kKeys<kDim> * kDim];
  BF16 values[kKeys<kDim> * kDim];
  Words4 queries[kWarps][kDim / 16][kWarp];
  bool has_nan[kKeys<kDim>];
  int32_t head_count;
  RowScales<T, kKeys<kDim>> scales[2];  // The keys' scales, and the values'.
  Numbers4 totals[kWarps][kDim / 8][kWarp];
};

// Starts to copy a block of keys (`side` 0) or values (1).
template <typename T, int kDim, int kThreads>
__device__ void copy_block(const TiledAttention& params, const Tile& tile, int block, int side,
                           BF16* to, RowScales<T, kKeys<kDim>>& scales) {
  constexpr int kCopies = kDim / kPerCopy<T>;
  const auto tokens = static_cast<uint32_t>(params.state.page_tokens);
  const auto dim = static_cast<int>(params.attrs.head_dim);
  const int64_t head_at = (int64_t{blockIdx.y} * 2 + side) * dim * tokens;
  for (int i = static_cast<int>(threadIdx.x); i < kKeys<kDim> * kCopies; i += kThreads) {
    const int row = i / kCopies, copy = i % kCopies, key = block * kKeys<kDim> + row;
    const bool there = tile.sees(key) && copy * kPerCopy<T> < dim;
    const std::byte* from = params.state.data;
    if (there) {
      const auto at = static_cast<uint32_t>(key);
      from += tile.sequence.pages[at / tokens] * params.state.page_bytes +
              (head_at + at % tokens * dim + copy * kPerCopy<T>)*int64_t{sizeof(T)};
    }
    copy_async(copied_to<T, kDim>(to, row, copy), from, there ? 16 : 0);
  }
  if constexpr (kIsCode<T>) {
    const int row = static_cast<int>(threadIdx.x) * 4, key = block * kKeys<kDim> + row;
    if (row >= kKeys<kDim>) return;
    const bool there = key + 3 >= tile.first_key && key <= tile.last_key;
    copy_scales(params, tile.sequence.pages, key, side, there, scales.of + row);
  }
}

// Decodes a block of codes, which begins at `first_key`. All threads call it; then products may
// read the block.
template <typename T, int kDim, int kThreads>
__device__ void decode(const Tile& tile, int first_key, const RowScales<T, kKeys<kDim>>& scales,
                       BF16* block) {
  if constexpr (kIsCode<T>) {
    decode_block<kDim, kThreads>(
        block, scales, static_cast<int>(threadIdx.x),
        [&](int row) { return tile.sees(first_key + row); }, [] { __syncthreads(); });
    __syncthreads();
  }
}

// Replaces the scores of one pair by probabilities relative to the highest score so far, in words
// of two bfloat16. Returns the factor by which the earlier sums are rescaled.
template <int kKeyCount>
__device__ float update_softmax(const AttentionAttrs& attrs, const Pair& pair, int half,
                                int first_key, Softmax& softmax, Products<kKeyCount>& scores,
                                uint32_t (&probabilities)[kKeyCount / 8][2]) {
  const float highest =
      take_scores<kKeyCount>(attrs, pair, half, first_key, softmax.highest, scores);
  const float total = take_probabilities<kKeyCount>(scores, half, base_of(highest), probabilities);
  const float shrink = exp_of(softmax.highest - base_of(highest));
  softmax = {highest, fmaf(softmax.total, shrink, total)};
  return shrink;
}

__device__ inline bool is_finite(BF16 x) { return (x.bits & 0x7f80) != 0x7f80; }

// 0 times a value that is not finite would be NaN. So in a block with keys that some pairs do not
// see, values that are not finite become zeros, and pairs that see such a value get NaN. All
// threads call this function.
template <typename T, int kDim, int kWarps>
__device__ void take_out_nan(const Pair (&pairs)[2], int first_key, Shared<T, kDim, kWarps>& shared,
                             Softmax (&softmax)[2]) {
  constexpr int kThreads = kWarps * kWarp, kCount = kKeys<kDim>;
  const auto thread = static_cast<int>(threadIdx.x);
  for (int key = thread; key < kCount; key += kThreads) shared.has_nan[key] = false;
  __syncthreads();
  for (int i = thread; i < kCount * kDim; i += kThreads) {
    if (is_finite(shared.values[i])) continue;
    shared.values[i].bits = 0;
    shared.has_nan[i / kDim] = true;
  }
  __syncthreads();
  for (int key = 0; key < kCount; ++key) {
    if (!shared.has_nan[key]) continue;
    for (int half = 0; half < 2; ++half) {
      if (pairs[half].sees(first_key + key)) softmax[half].total = __builtin_nanf("");
    }
  }
}

// Processes one block of keys, which are already being copied to shared memory. If there is a next
// block, begins to copy its keys.
template <typename T, int kDim, int kWarps>
__device__ void attend_block(const TiledAttention& params, const Tile& tile, const Pair (&pairs)[2],
                             int block, bool has_next, Shared<T, kDim, kWarps>& shared,
                             Softmax (&softmax)[2], Products<kDim>& sums) {
  constexpr int kThreads = kWarps * kWarp, kCount = kKeys<kDim>;
  const int first = block * kCount, last = first + kCount - 1;
  copy_block<T, kDim, kThreads>(params, tile, block, 1, shared.values, shared.scales[1]);
  commit_copies();
  wait_copies<1>();
  __syncthreads();  // The keys are in shared memory.
  decode<T, kDim, kThreads>(tile, first, shared.scales[0], shared.keys);
  Products<kCount> scores = {};
  const auto& queries = shared.queries[threadIdx.x / kWarp];
  multiply_keys<kDim>(
      shared.keys, [&](int step) { return queries[step][threadIdx.x % kWarp]; }, scores);
  __syncthreads();  // All threads have read the keys.
  if (has_next) {
    copy_block<T, kDim, kThreads>(params, tile, block + 1, 0, shared.keys, shared.scales[0]);
  }
  commit_copies();
  uint32_t probabilities[kCount / 8][2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int own = first + static_cast<int>(threadIdx.x % 4) * 2;
    const float shrink = update_softmax<kCount>(params.attrs, pairs[half], half, own, softmax[half],
                                                scores, probabilities);
#pragma unroll
    for (int i = 0; i < kDim / 4; ++i) {
      float& sum = sums[i / 2][half * 2 + i % 2];
      sum = sum * shrink;
    }
  }
  wait_copies<1>();
  __syncthreads();  // The values are in shared memory.
  decode<T, kDim, kThreads>(tile, first, shared.scales[1], shared.values);
  if (max(first, tile.first_key) < tile.all_from || min(last, tile.last_key) > tile.all_to) {
    take_out_nan<T, kDim, kWarps>(pairs, first, shared, softmax);
  }
  add_values<kDim, kDim>(
      shared.values, 0, [&](int step) { return probability_words(probabilities, step); }, sums);
  __syncthreads();  // All threads have read the values.
}

// Merges the sums of one split with those of all splits before it, into `sums`.
template <int kDim>
__device__ void add_totals(const Numbers4 (&totals)[kDim / 8][kWarp], Softmax (&before)[2],
                           const Softmax (&split)[2], Products<kDim>& sums) {
  const Merge merge[2] = {Merge(before[0], split[0]), Merge(before[1], split[1])};
#pragma unroll
  for (int i = 0; i < kDim / 2; ++i) {
    float& sum = sums[i / 4][i % 4];
    sum = merge[i % 4 / 2].of(totals[i / 4][threadIdx.x % kWarp].at[i % 4], sum);
  }
}

// Stores a pair's output, or its part in scratch.
template <int kDim>
__device__ void store(const TiledAttention& params, const Pair& pair, int half, int split,
                      const Softmax& softmax, const Products<kDim>& sums) {
  if (pair.row < 0) return;
  const auto dim = static_cast<int>(params.attrs.head_dim);
  const bool apart = params.parts != nullptr;
  float* part = apart ? part_of(params, pair.row, pair.head, split) : nullptr;
  const Quotient quotient = quotient_of(params, softmax, pair.head);
#pragma unroll
  for (int i = 0; i < kDim / 4; ++i) {
    const int column = i / 2 * 8 + static_cast<int>(threadIdx.x % 4) * 2 + i % 2;
    const float sum = sums[i / 2][half * 2 + i % 2];
    if (apart && column < dim) part[column] = sum;
    if (apart || column >= dim) continue;
    set_element(params.out, pair.row, int64_t{pair.head} * dim + column, quotient.of(sum));
  }
  if (apart && threadIdx.x % 4 == 0) {
    part[dim] = softmax.highest;
    part[dim + 1] = softmax.total;
  }
}

// Processes blocks of keys [begin, end); there is at least one.
template <typename T, int kDim, int kWarps>
__device__ void attend_pairs(const TiledAttention& params, const Tile& tile, const Pair (&pairs)[2],
                             int begin, int end, Shared<T, kDim, kWarps>& shared) {
  constexpr int kSplitBlocks = kSplitKeys / kKeys<kDim>;
  auto& totals = shared.totals[threadIdx.x / kWarp];
  Softmax softmax[2], before[2];
  Products<kDim> sums = {};
  copy_block<T, kDim, kWarps * kWarp>(params, tile, begin, 0, shared.keys, shared.scales[0]);
  commit_copies();
  for (int step = 0; step < kDim / 16; ++step) {
    shared.queries[threadIdx.x / kWarp][step][threadIdx.x % kWarp] =
        query_words(params, pairs, step);
  }
  for (int block = begin; block < end; ++block) {
    const bool has_next = block + 1 < end;
    attend_block<T, kDim, kWarps>(params, tile, pairs, block, has_next, shared, softmax, sums);
    if (has_next && (block + 1) % kSplitBlocks != 0) continue;
    if (block < (begin / kSplitBlocks + 1) * kSplitBlocks) {
      before[0] = softmax[0], before[1] = softmax[1];
    } else {
      add_totals<kDim>(totals, before, softmax, sums);
    }
    if (!has_next) break;
    softmax[0] = softmax[1] = {};
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      totals[n][threadIdx.x % kWarp] = {sums[n][0], sums[n][1], sums[n][2], sums[n][3]};
      for (float& sum : sums[n]) sum = 0;
    }
  }
  wait_copies<0>();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    store<kDim>(params, pairs[half], half, begin / kSplitBlocks, before[half], sums);
  }
}

template <typename T, int kDim, int kWarps>
__global__ void __launch_bounds__(kWarps* kWarp) attend_kernel(TiledAttention params) {
  auto& shared = *reinterpret_cast<Shared<T, kDim, kWarps>*>(dynamic_shared());
  auto* heads = reinterpret_cast<int32_t*>(dynamic_shared() + params.heads_at);
  const Tile tile = tile_of(params, blockIdx.x % params.tiles);
  int64_t begin = tile.first_key / kKeys<kDim>, end = tile.last_key / kKeys<kDim> + 1;
  if (params.parts != nullptr) {
    const int64_t split = blockIdx.x / params.tiles, blocks = kSplitKeys / kKeys<kDim>;
    begin = max(begin, split * blocks);
    end = min(end, (split + 1) * blocks);
  }
  if (tile.rows == 0 || begin >= end) return;
  list_heads(params.attrs, heads, shared.head_count);
  const auto lane = static_cast<int>(threadIdx.x % kWarp),
             warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int pass = 0; pass < tile.rows * shared.head_count; pass += kWarps * kPairs) {
    const int number = pass + warp * kPairs + lane / 4;
    const Pair pairs[2] = {pair_of(params, tile, heads, shared.head_count, number),
                           pair_of(params, tile, heads, shared.head_count, number + 8)};
    attend_pairs<T, kDim, kWarps>(params, tile, pairs, static_cast<int>(begin),
                                  static_cast<int>(end), shared);
  }
}

// Merges the splits of a row (blockIdx.x) and a head. Loads kTogether parts before it merges them.
__global__ void merge_kernel(TiledAttention params) {
  constexpr int kTogether = 8;
  const int64_t row = blockIdx.x, head = blockIdx.y, dim = params.attrs.head_dim;
  const int64_t position = params.step.positions[row];
  const StepSequence& sequence = params.step.sequences[params.step.sequence_of_row[row]];
  const int64_t begin = first_seen(params.attrs, position) / kSplitKeys;
  const int64_t end = sequence.last_seen(position) / kSplitKeys + 1;
  for (int64_t column = threadIdx.x; column < dim; column += blockDim.x) {
    Softmax softmax;
    float sum = 0;
    for (int64_t first = begin; first < end; first += kTogether) {
      float sums[kTogether] = {};
      Softmax splits[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + i >= end) continue;
        const float* part = part_of(params, row, head, first + i);
        sums[i] = part[column];
        splits[i] = {part[dim], part[dim + 1]};
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + i >= end) continue;
        const Merge merge(softmax, splits[i]);
        sum = merge.of(sum, sums[i]);
      }
    }
    const float output = quotient_of(params, softmax, head).of(sum);
    set_element(params.out, row, head * dim + column, output);
  }
}

template <typename T, int kDim, int kWarps>
const char* launch_tiles(TiledAttention params, bool has_totals, void* queue) {
  using Memory = Shared<T, kDim, kWarps>;
  static_assert(kSplitKeys % kKeys<kDim> == 0);
  params.heads_at = has_totals ? sizeof(Memory) : offsetof(Memory, totals);
  const int64_t bytes = params.heads_at + params.attrs.heads * int64_t{sizeof(int32_t)};
  return launch(attend_kernel<T, kDim, kWarps>,
                {params.tiles * params.splits, params.attrs.kv_heads, bytes}, kWarps * kWarp, queue,
                params);
}

template <typename T, int kDim>
const char* attend(const KernelArgs& args, bool by_rows) {
  const AttentionAttrs& attrs = args.attrs.attention();
  TiledAttention params{attention_params(args)};
  const int64_t rows = params.step.rows, sequences = params.step.sequence_count;
  const int64_t group = (attrs.heads + attrs.kv_heads - 1) / attrs.kv_heads;
  const int64_t splits = (params.step.longest + kSplitKeys - 1) / kSplitKeys;
  const bool apart = splits > 1 && rows * attrs.heads * splits <= device::kMaxParts;
  const bool one_warp = rows == sequences && group <= kPairs, has_totals = splits > 1 && !apart;
  if (apart) {
    params.parts = reinterpret_cast<float*>(args.scratch);
    params.splits = splits;
  }
  params.tile_rows = max(1, (one_warp ? 1 : kMaxWarps<kDim>)*kPairs / group);
  params.tiles = rows / params.tile_rows + sequences;
  const char* failure =
      by_rows && rows == sequences && takes_rows(params) ? attend_rows<T>(params, args.queue)
      : one_warp ? launch_tiles<T, kDim, 1>(params, has_totals, args.queue)
                 : launch_tiles<T, kDim, kMaxWarps<kDim>>(params, has_totals, args.queue);
  if (failure != nullptr || !apart) return failure;
  const int64_t threads = (attrs.head_dim + kWarp - 1) / kWarp * kWarp;
  return launch(merge_kernel, {rows, attrs.heads}, static_cast<int>(threads), args.queue, params);
}

}  // namespace

template <typename T>
const char* attend_mma(const KernelArgs& args, bool by_rows) {
  const AttentionAttrs& attrs = args.attrs.attention();
  if (args.step->rows == 0 || attrs.kv_heads == 0) return nullptr;
  if (attrs.head_dim <= kNarrow) return attend<T, kNarrow>(args, by_rows);
  if (attrs.head_dim <= kMiddle) return attend<T, kMiddle>(args, by_rows);
  return attend<T, kWide>(args, by_rows);
}
template const char* attend_mma<BF16>(const KernelArgs& args, bool by_rows);
template const char* attend_mma<Code>(const KernelArgs& args, bool by_rows);

}  // namespace lockstep::LOCKSTEP_TARGET
