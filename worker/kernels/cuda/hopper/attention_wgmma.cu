// SPDX-License-Identifier: Apache-2.0
// Attention of prompts by wgmma, in the order of attention_mma.cu and so with its bits: blocks of
// 64 keys, splits of 256, steps of 16 columns or keys.
//
// A block of threads has two warpgroups that multiply and one that prepares their operands: one
// warp starts the copies of keys and values, one cleans values of masked blocks, two write queries.
// A block computes one unit (attention_units.h) after another.
#include "worker/kernels/cuda/attention/attention_mma.h"
#include "worker/kernels/cuda/hopper/attention_operands.h"
#include "worker/kernels/cuda/hopper/attention_softmax.h"
#include "worker/kernels/cuda/hopper/attention_wgmma.h"
#include "worker/kernels/cuda/hopper/tensor_map.h"

namespace lockstep::LOCKSTEP_TARGET {

using device::AttentionWork;

namespace {

// A warpgroup that multiplies, for 64 pairs of each unit. While it multiplies one block's values,
// it turns the next block's scores into probabilities.
template <typename Shape>
class AttentionGroup {
 public:
  // `thread` is this thread's number among the threads that multiply.
  __device__ AttentionGroup(const WgmmaAttention& params, const Shape& shared, int thread)
      : params_(params),
        shared_(shared),
        group_(from_lane(thread / kWarpgroup, 0)),
        warp_(from_lane(thread / kWarp % 4, 0)),
        lane_(thread % kWarp) {}

  __device__ void run() {
#pragma unroll 1
    while (true) {
      barrier_wait(shared_.queries_full(queries_.stage), queries_.parity);
      if (from_lane(shared_.unit(queries_.stage).rows, 0) == 0) return;
      attend();
      warp_meet();
      if (lane_ == 0) barrier_arrive_here(shared_.queries_empty(queries_.stage));
      queries_.advance();
    }
  }

 private:
  static constexpr int kSums = Shape::kDim / 2;
  static constexpr int kTotals = Shape::kSharedTotals ? 1 : kSums;

  // The keys that a thread's two pairs see.
  struct Seen {
    int first[2], last[2];
  };
  // A thread's numbers: scores of the newest block; probabilities of the block before it; sums of
  // the split, and of all splits before it.
  struct Numbers {
    float scores[32], shrink[2];
    ProbabilityWords words;
    float sums[kSums] = {}, totals[kTotals] = {};
    Softmax now[2], all[2];
    bool has_totals = false;
  };

  __device__ Pair pair(const AttentionUnit& unit, int half) const {
    const HeadLists lists = shared_.lists(params_.attrs);
    const int count = lists.count(unit.kv_head);
    const int number = unit.first_pair + group_ * kGroupPairs + warp_ * 16 + lane_ / 4 + half * 8;
    Pair pair;
    if (number >= unit.rows * count) return pair;
    const int row = number / count, position = unit.position + row;
    pair.row = unit.first_row + row;
    pair.head = lists.head(unit.kv_head, number % count);
    pair.position = position;
    pair.first = static_cast<int32_t>(first_seen(params_.attrs, position));
    pair.last = position < unit.prefix_rows ? unit.prefix_rows - 1 : position;
    return pair;
  }

  // Starts the products of the queries and the next keys.
  __device__ void start_scores(float (&scores)[32]) const {
    const uint64_t query = rows_descriptor(shared_.queries(queries_.stage, group_));
    const uint64_t key = rows_descriptor(shared_.keys(keys_.stage));
    wgmma_fence();
    multiply_rows<0>(scores, query, key);
#pragma unroll
    for (int step = 1; step < Shape::kDim / 16; ++step) {
      multiply_rows<1>(scores, query + columns_step(step), key + columns_step(step));
    }
    wgmma_commit();
  }
  // Starts to add the next values times their probabilities to the sums (to zeros unless `keep`).
  __device__ void start_values(float (&sums)[kSums], const ProbabilityWords& words,
                               int keep) const {
    const uint64_t value = turned_descriptor(shared_.values(values_.stage));
    wgmma_fence();
    multiply_turned(sums, words[0], value, keep);
#pragma unroll
    for (int step = 1; step < kBlockKeys / 16; ++step) {
      multiply_turned(sums, words[step], value + step * kRowsStep, 1);
    }
    wgmma_commit();
  }
  __device__ void wait_keys() const { barrier_wait(shared_.keys_full(keys_.stage), keys_.parity); }
  __device__ void wait_values() const {
    barrier_wait(shared_.values_full(values_.stage), values_.parity);
  }
  __device__ void release_keys() {
    if (lane_ == 0) barrier_arrive_here(shared_.keys_empty(keys_.stage));
    keys_.advance();
  }
  // Ends the use of the values of `block`. A pair that sees a key whose values were not finite gets
  // NaN.
  __device__ void release_values(const AttentionUnit& unit, int block, const Seen& seen,
                                 Softmax (&before)[2]) {
    if (unit.is_divided(block)) {
      const auto& keys = shared_.nan_keys(values_.stage);
      for (int key = 0; key < kBlockKeys && (keys[0] | keys[1]) != 0; ++key) {
        if ((keys[key / 32] >> key % 32 & 1) == 0) continue;
        const int at = block * kBlockKeys + key;
        for (int half = 0; half < 2; ++half) {
          const bool sees = seen.first[half] <= at && at <= seen.last[half];
          if (sees) before[half].total = __builtin_nanf("");
        }
      }
      warp_meet();
    }
    if (lane_ == 0) barrier_arrive_here(shared_.values_empty(values_.stage));
    values_.advance();
  }

  // Turns products into probabilities and their sums, for the keys of a block.
  __device__ void take_softmax(const AttentionUnit& unit, int block, const Seen& seen, Numbers& at,
                               ProbabilityWords& words) const {
    if constexpr (Shape::kBentScores) bend(at.scores, block);
    if (unit.is_masked(block)) mask(at.scores, block, seen);
    update_softmax(at.scores, Shape::kBentScores ? 1.0f : params_.attrs.scale, at.now, at.shrink,
                   words);
  }
  // Turns products into scores. No registers are free to keep slopes and positions between blocks.
  __device__ void bend(float (&scores)[32], int block) const {
#pragma unroll
    for (float& score : scores) score = capped_score(params_.attrs, score);
    if (params_.attrs.slopes.empty()) return;
    const int key = block * kBlockKeys + lane_ % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Pair own = pair(uniform_unit(), half);
      const float slope = params_.attrs.slopes[own.head];
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int distance = key + i / 2 * 8 + i % 2 - own.position;
        float& score = scores[i / 2 * 4 + half * 2 + i % 2];
        score = fmaf(slope, static_cast<float>(distance), score);
      }
    }
  }
  __device__ void mask(float (&scores)[32], int block, const Seen& seen) const {
    const int key = block * kBlockKeys + lane_ % 4 * 2;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int at = key + i / 4 * 8 + i % 2, half = i / 2 % 2;
      if (at < seen.first[half] || at > seen.last[half]) scores[i] = -kInfinity;
    }
  }

  __device__ float* totals_at(int number) const {
    const SharedAddress at = shared_.totals() + group_ * (kGroupPairs * Shape::kDim * 4);
    return reinterpret_cast<float*>(shared_bytes(at)) +
           (number * kWarpgroup + warp_ * kWarp + lane_) * 4;
  }
  // Four of this thread's totals; zeros if there are none yet.
  __device__ Words4 shared_totals(int number, const Numbers& at) const {
    return at.has_totals ? *reinterpret_cast<const Words4*>(totals_at(number)) : Words4{};
  }
  // Merges the sums of a split with the totals.
  __device__ void add_split(const Merge (&merge)[2], Numbers& at) const {
    if constexpr (!Shape::kSharedTotals) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) at.totals[i] = merge[i / 2 % 2].of(at.totals[i], at.sums[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kSums / 4; ++i) {
        Words4 totals = shared_totals(i, at);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          totals.at[j] = std::bit_cast<uint32_t>(
              merge[j / 2].of(std::bit_cast<float>(totals.at[j]), at.sums[4 * i + j]));
        }
        *reinterpret_cast<Words4*>(totals_at(i)) = totals;
      }
    }
    at.has_totals = true;
  }
  // Merges the last split with the totals, and stores the outputs.
  __device__ void finish(const AttentionUnit& unit, const Merge (&merge)[2], Numbers& at) const {
    if constexpr (!Shape::kSharedTotals) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) at.sums[i] = merge[i / 2 % 2].of(at.totals[i], at.sums[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kSums / 4; ++i) {
        const Words4 totals = shared_totals(i, at);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float& sum = at.sums[4 * i + j];
          sum = merge[j / 2].of(std::bit_cast<float>(totals.at[j]), sum);
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) store(pair(unit, half), half, at.all[half], at.sums);
  }
  __device__ void store(const Pair& pair, int half, const Softmax& all,
                        const float (&sums)[kSums]) const {
    if (pair.row < 0) return;
    const auto dim = static_cast<int>(params_.attrs.head_dim);
    const Quotient quotient = quotient_of(params_, all, pair.head);
    const int64_t first = int64_t{pair.head} * dim + lane_ % 4 * 2;
    const TensorView& out = params_.out;
#pragma unroll
    for (int n = 0; n < Shape::kDim / 8; ++n) {
      if (n * 8 >= dim) continue;
      const float low = quotient.of(sums[4 * n + half * 2]);
      const float high = quotient.of(sums[4 * n + half * 2 + 1]);
      if (params_.aligned_pairs && out.dtype == DType::kBF16) {
        *reinterpret_cast<uint32_t*>(out.row<BF16>(pair.row) + first + n * 8) =
            rounded_pair<BF16>(low, high);
      } else {
        set_element(out, pair.row, first + n * 8, low);
        set_element(out, pair.row, first + n * 8 + 1, high);
      }
    }
  }

  // Computes one unit, whose queries are in shared memory.
  __device__ void attend() {
    const AttentionUnit unit = uniform_unit();
    const Pair pairs[2] = {pair(unit, 0), pair(unit, 1)};
    const Seen seen{{pairs[0].first, pairs[1].first}, {pairs[0].last, pairs[1].last}};
    const int begin = unit.begin(), end = unit.end();
    Numbers at;
    wait_keys();
    pin(at.scores);
    start_scores(at.scores);
    wgmma_wait<0>();
    pin(at.scores);
    release_keys();
    take_softmax(unit, begin, seen, at, at.words);
#pragma unroll 1
    for (int block = begin + 1; block < end; ++block) attend_block(unit, block, seen, at);
    wait_values();
    pin(at.sums);
    pin_words(at.words);
    start_values(at.sums, at.words, (end - 1) % kSplitBlocks != 0);
    wgmma_wait<0>();
    pin(at.sums);
    release_values(unit, end - 1, seen, at.all);
    const Merge merge[2] = {Merge(at.all[0], at.now[0]), Merge(at.all[1], at.now[1])};
    finish(unit, merge, at);
  }

  // Multiplies a block's keys, and the values of the block before it. ptxas serializes all products
  // if an instruction defines their registers between the first pin() and the wait.
  __device__ void attend_block(const AttentionUnit& unit, int block, const Seen& seen,
                               Numbers& at) {
    const bool begins = block % kSplitBlocks == 0;
    wait_keys();
    pin(at.scores);
    pin(at.sums);
    pin_words(at.words);
    start_scores(at.scores);
    wait_values();
    start_values(at.sums, at.words, (block - 1) % kSplitBlocks != 0);
    wgmma_wait<1>();
    pin(at.scores);
    release_keys();
    Merge merge[2];
    if (begins) {
      merge[0] = Merge(at.all[0], at.now[0]), merge[1] = Merge(at.all[1], at.now[1]);
      at.now[0] = at.now[1] = {};
    }
    ProbabilityWords next;
    take_softmax(unit, block, seen, at, next);
    compute_here(at.now[0].total + at.now[1].total);
    wgmma_wait<0>();
    pin_words(at.words);  // Products may read the words until here.
    pin(at.sums);
    release_values(unit, block - 1, seen, at.all);
    if (begins) {
      add_split(merge, at);
    } else {
#pragma unroll
      for (int i = 0; i < kSums; ++i) at.sums[i] = at.sums[i] * at.shrink[i / 2 % 2];
    }
#pragma unroll
    for (int i = 0; i < kBlockKeys / 4; ++i) {
      at.words[i / 4][i % 4] = in_new_register(next[i / 4][i % 4]);
    }
  }

  // The unit, read in a way that shows the compiler that all lanes have the same numbers. The
  // compiler then needs fewer registers.
  __device__ AttentionUnit uniform_unit() const {
    const AttentionUnit& unit = shared_.unit(queries_.stage);
    return {.rows = from_lane(unit.rows, 0),
            .first_row = from_lane(unit.first_row, 0),
            .position = from_lane(unit.position, 0),
            .prefix_rows = from_lane(unit.prefix_rows, 0),
            .first_key = from_lane(unit.first_key, 0),
            .last_key = from_lane(unit.last_key, 0),
            .all_from = from_lane(unit.all_from, 0),
            .all_to = from_lane(unit.all_to, 0),
            .kv_head = from_lane(unit.kv_head, 0),
            .first_pair = from_lane(unit.first_pair, 0)};
  }

  const WgmmaAttention& params_;
  const Shape shared_;
  const int group_, warp_, lane_;
  RingPlace<Shape::kKeySlots> keys_;
  RingPlace<Shape::kValueSlots> values_;
  RingPlace<Shape::kBuffers> queries_;
};

// The warp that starts the copies of keys and values. A lane starts one copy of each block of keys,
// and one of its values: 64 columns of the keys in one page.
template <typename Shape>
class BlockCopies {
 public:
  __device__ BlockCopies(const TiledAttention& params, const TensorMap& map, const Shape& shared)
      : params_(params),
        map_(map),
        shared_(shared),
        tokens_(static_cast<int>(params.state.page_tokens)),
        lane_(static_cast<int>(threadIdx.x % kWarp)) {}

  // Copies of keys are one block ahead of copies of values. Page numbers are read one more block
  // ahead.
  __device__ void bring(const AttentionUnit& unit, const int32_t* pages) {
    const int begin = unit.begin(), end = unit.end();
    int page = page_of(unit, pages, begin), next = page_of(unit, pages, begin + 1);
    bring_keys(unit, page);
#pragma unroll 1
    for (int block = begin; block < end; ++block) {
      const int after = page_of(unit, pages, block + 2);
      if (block + 1 < end) bring_keys(unit, next);
      bring_values(unit, page, block);
      page = next;
      next = after;
    }
  }

 private:
  // The number of the lane's page; -1: the lane has no copy.
  __device__ int page_of(const AttentionUnit& unit, const int32_t* pages, int block) const {
    const int in_block = lane_ / Shape::kPanels * tokens_;
    const int first = block * kBlockKeys + in_block;
    const bool there =
        in_block < kBlockKeys && first <= unit.last_key && first + tokens_ > unit.first_key;
    return there ? pages[static_cast<uint32_t>(first) / static_cast<uint32_t>(tokens_)] : -1;
  }
  __device__ void copy(const AttentionUnit& unit, int page, int side, SharedAddress slot,
                       SharedAddress full) const {
    const unsigned lanes = lanes_with(page >= 0);
    if (lane_ == 0) barrier_expect(full, std::popcount(lanes) * tokens_ * 128);
    warp_meet();
    if (page < 0) return;
    const int panel = lane_ % Shape::kPanels, in_block = lane_ / Shape::kPanels * tokens_;
    const int row =
        ((page * static_cast<int>(params_.attrs.kv_heads) + unit.kv_head) * 2 + side) * tokens_;
    load_tile(slot + panel * kPanelBytes + in_block * 128, map_, panel * 64, row, full);
  }
  __device__ void bring_keys(const AttentionUnit& unit, int page) {
    barrier_wait(shared_.keys_empty(keys_.stage), keys_.parity ^ 1);
    copy(unit, page, 0, shared_.keys(keys_.stage), shared_.keys_full(keys_.stage));
    keys_.advance();
  }
  // The values of a masked block are cleaned before they count as full.
  __device__ void bring_values(const AttentionUnit& unit, int page, int block) {
    const bool masked = unit.is_masked(block);
    barrier_wait(shared_.values_empty(values_.stage), values_.parity ^ 1);
    copy(unit, page, 1, shared_.values(values_.stage),
         masked ? shared_.values_raw(raw_.stage) : shared_.values_full(values_.stage));
    values_.advance();
    if (masked) raw_.advance();
  }

  const TiledAttention& params_;
  const TensorMap& map_;
  const Shape shared_;
  const int tokens_, lane_;
  RingPlace<Shape::kKeySlots> keys_;
  RingPlace<Shape::kValueSlots> values_, raw_;
};

// A thread lists the heads of one KV head, or of several.
__device__ void write_lists(const AttentionAttrs& attrs, const HeadLists& lists) {
  const auto kv_heads = static_cast<int>(attrs.kv_heads), heads = static_cast<int>(attrs.heads);
#pragma unroll 1
  for (int kv_head = static_cast<int>(threadIdx.x); kv_head <= kv_heads;
       kv_head += static_cast<int>(blockDim.x)) {
    int at = 0;
    for (int head = 0; head < heads; ++head) at += attrs.kv_head_of[head] < kv_head ? 1 : 0;
    lists.begins[kv_head] = at;
    for (int head = 0; head < heads; ++head) {
      if (attrs.kv_head_of[head] == kv_head) lists.heads[at++] = head;
    }
  }
}

template <typename Shape>
__device__ void prepare(const Shape& shared) {
  constexpr int kReaders = kGroups * kWarpgroup / kWarp;  // Each warp releases a slot.
  for (int slot = 0; slot < Shape::kKeySlots; ++slot) {
    barrier_init(shared.keys_full(slot), 1);
    barrier_init(shared.keys_empty(slot), kReaders);
  }
  for (int slot = 0; slot < Shape::kValueSlots; ++slot) {
    barrier_init(shared.values_full(slot), 1);
    barrier_init(shared.values_empty(slot), kReaders);
    barrier_init(shared.values_raw(slot), 1);
  }
  for (int buffer = 0; buffer < Shape::kBuffers; ++buffer) {
    barrier_init(shared.queries_full(buffer), kQueryThreads / kWarp);
    barrier_init(shared.queries_empty(buffer), kReaders);
  }
  publish_barriers();
}

// Calls f(unit, pages) for each unit of the running block, in one order. Late tiles see the most
// keys, so they come first. Every second round assigns units to blocks of threads in the opposite
// order, so that each block gets long and short units.
template <typename F>
__device__ void for_each_unit(const TiledAttention& params, const HeadLists& lists, const F& f) {
  const auto kv_heads = static_cast<int>(params.attrs.kv_heads);
  const int items = static_cast<int>(params.tiles) * kv_heads;
  const auto blocks = static_cast<int>(gridDim.x), own = static_cast<int>(blockIdx.x);
#pragma unroll 1
  for (int first = 0, round = 0; first < items; first += blocks, ++round) {
    const int item = first + (round % 2 == 0 ? own : blocks - 1 - own);
    if (item >= items) continue;
    const int kv_head = item % kv_heads;
    const Tile tile = tile_of(params, params.tiles - 1 - item / kv_heads);
    AttentionUnit unit{.rows = tile.rows,
                       .first_row = tile.first_row,
                       .position = static_cast<int32_t>(tile.sequence.first_position +
                                                        tile.first_row - tile.sequence.first_row),
                       .prefix_rows = static_cast<int32_t>(tile.sequence.prefix_rows),
                       .first_key = tile.first_key,
                       .last_key = tile.last_key,
                       .all_from = tile.all_from,
                       .all_to = tile.all_to,
                       .kv_head = kv_head};
    const int pairs = tile.rows * lists.count(kv_head);
#pragma unroll 1
    for (; unit.first_pair < pairs; unit.first_pair += kUnitPairs) {
      f(unit, tile.sequence.pages);
    }
  }
}

// The warpgroup that prepares operands; each warp goes through the same units.
template <typename Shape>
__device__ void bring_operands(const WgmmaAttention& params, const TensorMap& pages,
                               const Shape& shared) {
  const HeadLists lists = shared.lists(params.attrs);
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < kWarp) {
    BlockCopies<Shape> copies(params, pages, shared);
    for_each_unit(params, lists, [&](const AttentionUnit& unit, const int32_t* of_sequence) {
      copies.bring(unit, of_sequence);
    });
  } else if (thread < 2 * kWarp) {
    ValueCleaner<Shape> cleaner(shared);
    for_each_unit(params, lists,
                  [&](const AttentionUnit& unit, const int32_t*) { cleaner.clean(unit); });
  } else {
    QueryWriter<Shape> writer(params, shared, thread - 2 * kWarp);
    for_each_unit(params, lists,
                  [&](const AttentionUnit& unit, const int32_t*) { writer.write(unit); });
    writer.write({});
  }
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    attend_kernel(const __grid_constant__ TensorMap pages,
                  const __grid_constant__ WgmmaAttention params) {
  const Shape shared{(dynamic_shared_address() + Shape::kAlign - 1) / Shape::kAlign *
                     Shape::kAlign};
  write_lists(params.attrs, shared.lists(params.attrs));
  if (threadIdx.x == 0) {
    prefetch_map(pages);
    prepare(shared);
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    fewer_registers<56>();
    bring_operands(params, pages, shared);
  } else {
    more_registers<224>();
    AttentionGroup<Shape>(params, shared, static_cast<int>(threadIdx.x) - kWarpgroup).run();
  }
}

constexpr int kShimProcessors = 3;  // So few that a block computes several units.

int64_t group_of(const AttentionAttrs& attrs) {
  return (attrs.heads + attrs.kv_heads - 1) / attrs.kv_heads;
}

template <typename Shape>
const char* attend(const KernelArgs& args, bool apart) {
  WgmmaAttention params{{attention_params(args)}};
  const AttentionAttrs& attrs = params.attrs;
  const auto out_bytes = static_cast<int64_t>(dtype_bytes(params.out.dtype));
  params.aligned_pairs = params.out.stride % 2 == 0 &&
                         reinterpret_cast<uintptr_t>(params.out.data) % (2 * out_bytes) == 0;
  params.tile_rows = max(1, kUnitPairs / group_of(attrs));
  params.tiles = params.step.rows / params.tile_rows + params.step.sequence_count;
  TensorMap pages;
  const char* failure =
      make_map({.data = params.state.data,
                .cols = attrs.head_dim,
                .rows = params.state.pages * attrs.kv_heads * 2 * params.state.page_tokens,
                .row_bytes = attrs.head_dim * int64_t{sizeof(BF16)},
                .tile_cols = 64,
                .tile_rows = static_cast<int>(params.state.page_tokens)},
               &pages);
  if (failure != nullptr) return failure;
  const int64_t items = params.tiles * attrs.kv_heads;
  const int64_t blocks = apart ? items : min(items, processors(kShimProcessors));
  return launch_clusters(attend_kernel<Shape>, blocks, 1, Shape::kThreads, Shape::bytes(attrs),
                         args.queue, pages, params);
}

template <int kDim, bool kBends>
const char* attend_by(AttentionWork work, const KernelArgs& args) {
  return work == AttentionWork::kInTurn ? attend<AttentionShape<kDim, 2, kBends>>(args, false)
                                        : attend<AttentionShape<kDim, 1, kBends>>(args, true);
}
template <int kDim>
const char* attend_by(AttentionWork work, const KernelArgs& args) {
  const AttentionAttrs& attrs = args.attrs.attention();
  return attrs.cap != 0 || !attrs.slopes.empty() ? attend_by<kDim, true>(work, args)
                                                 : attend_by<kDim, false>(work, args);
}

}  // namespace

bool takes_wgmma(const KernelArgs& args) {
  const AttentionAttrs& attrs = args.attrs.attention();
  const TensorView& q = args.in[0];
  const int64_t number_bytes = dtype_bytes(q.dtype);
  const int64_t tokens = args.state.page_tokens;
  const bool aligned = reinterpret_cast<uintptr_t>(q.data) % 16 == 0 &&
                       q.stride * number_bytes % 16 == 0 &&
                       reinterpret_cast<uintptr_t>(args.state.data) % 16 == 0;
  return device::takes_mma(attrs, DType::kBF16) && attrs.head_dim <= kMiddle &&
         attrs.kv_heads > 0 && attrs.scale > 0 && aligned && kBlockKeys % tokens == 0 &&
         tokens >= 16 && head_lists_bytes(attrs) <= kMaxListsBytes;
}

// Steps with few rows that see several splits are left to attention_mma.cu, which gives each split
// its own block of threads. The number of items from which wgmma is worth it was not measured.
bool is_prompt(const KernelArgs& args) {
  const AttentionAttrs& attrs = args.attrs.attention();
  const int64_t rows = args.step->rows, pairs = rows * group_of(attrs);
  const int64_t splits = (args.step->longest + kSplitKeys - 1) / kSplitKeys;
  const bool has_parts = splits > 1 && rows * attrs.heads * splits <= device::kMaxParts;
  return rows > args.step->sequence_count && !has_parts &&
         pairs / kUnitPairs * attrs.kv_heads >= processors(kShimProcessors) / 4;
}

const char* attend_wgmma_by(AttentionWork work, const KernelArgs& args) {
  return args.attrs.attention().head_dim <= kNarrow ? attend_by<kNarrow>(work, args)
                                                    : attend_by<kMiddle>(work, args);
}

const char* attend_wgmma(const KernelArgs& args) {
  if (!takes_wgmma(args) || !is_prompt(args)) return attend_mma<BF16>(args, true);
  return attend_wgmma_by(AttentionWork::kInTurn, args);
}

}  // namespace lockstep::LOCKSTEP_TARGET
