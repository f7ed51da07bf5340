// SPDX-License-Identifier: Apache-2.0
// Appends k and v of the step's rows to the layer's pages, then for every row and query head
// out = sum over keys j of softmax(scale * q . k_j) v_j, over the keys up to the row's own position
// (the last `window` of them). Keys are taken in blocks of kAttentionBlock from position 0 on, with
// a running maximum and sum, so the bits depend on the position alone.
// A page holds, for every KV head, keys [head_dim][page_tokens], so that keys are lanes, and values
// [page_tokens][head_dim].
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/cpu/scratch.h"
#include "worker/kernels/cpu/vec.h"
#include "worker/kernels/cpu/vec_math.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kBlock = kAttentionBlock;
// From so many queries on, a block of keys and values is widened and laid side by side first.
constexpr int64_t kGatherQueries = 16;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

template <typename T>
struct Segment {
  const T* keys;    // [head_dim][tokens]
  const T* values;  // [tokens][head_dim]
};

// The keys of a block that are seen: [begin, end), relative to the block.
struct Range {
  int64_t begin;
  int64_t end;
};

// The queries of one KV head and some rows of one sequence, and how far each has come.
struct Queries {
  int64_t count = 0;
  int64_t padded_dim;
  const float** query;
  float** out;
  int64_t* position;
  float* highest;      // [count] running maximum
  float* total;        // [count] running sum
  float* scores;       // [count][kBlock], then probabilities
  float* accumulator;  // [count][padded_dim]
  float* gathered;     // A block's keys [head_dim][kBlock], then its values [kBlock][head_dim].
};

struct Call {
  const KernelArgs& args;
  int64_t dim;
  int64_t page_tokens;

  template <typename T>
  T* page(const StepSequence& sequence, int64_t position, int64_t kv_head) const {
    const StateView& state = args.state;
    std::byte* begin = state.data + sequence.pages[position / page_tokens] * state.page_bytes;
    return reinterpret_cast<T*>(begin) + kv_head * 2 * dim * page_tokens;
  }
  int64_t first_key(int64_t position) const {
    return args.attrs.window > 0 ? most(0, position - args.attrs.window + 1) : 0;
  }
  int64_t kv_head_of(int64_t head) const { return args.attrs.kv_head_of[head]; }
};

template <typename T>
void append_row(const Call& call, int64_t row) {
  const StepView& step = *call.args.step;
  const int64_t position = step.positions[row], slot = position % call.page_tokens;
  const StepSequence& sequence = step.sequences[step.sequence_of_row[row]];
  for (int64_t head = 0; head < call.args.attrs.kv_heads; ++head) {
    const float* k = call.args.in[1].row<float>(row) + head * call.dim;
    const float* v = call.args.in[2].row<float>(row) + head * call.dim;
    T* keys = call.page<T>(sequence, position, head);
    T* values = keys + call.dim * call.page_tokens + slot * call.dim;
    for (int64_t d = 0; d < call.dim; d += Vec::kLanes) {
      const int64_t n = least(Vec::kLanes, call.dim - d);
      T piece[Vec::kLanes];
      Vec::load(k + d, n).store(piece);
      for (int64_t i = 0; i < n; ++i) keys[(d + i) * call.page_tokens + slot] = piece[i];
      Vec::load(v + d, n).store(values + d, n);
    }
  }
}

// Scores of kQueries queries with kVecs vectors of keys; `lanes` of the last vector count.
template <int kQueries, int kVecs, typename T>
void score(const float* const* queries, const T* keys, int64_t tokens, int64_t lanes, int64_t dim,
           float scale, float* scores) {
  Vec sums[kQueries][kVecs];
#pragma GCC unroll 4
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 2
    for (int i = 0; i < kVecs; ++i) sums[q][i] = Vec::zero();
  }
  for (int64_t d = 0; d < dim; ++d) {
    Vec key[kVecs];
#pragma GCC unroll 2
    for (int i = 0; i < kVecs; ++i) {
      const T* from = keys + d * tokens + i * Vec::kLanes;
      key[i] = lanes == Vec::kLanes ? Vec::load(from) : Vec::load(from, lanes);
    }
#pragma GCC unroll 4
    for (int q = 0; q < kQueries; ++q) {
      const Vec value = Vec::splat(queries[q][d]);
#pragma GCC unroll 2
      for (int i = 0; i < kVecs; ++i) sums[q][i] = fma(value, key[i], sums[q][i]);
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 2
    for (int i = 0; i < kVecs; ++i) {
      (sums[q][i] * Vec::splat(scale)).store(scores + q * kBlock + i * Vec::kLanes, lanes);
    }
  }
}

template <int kQueries, typename T>
void score_segment(const float* const* queries, const T* keys, int64_t tokens, int64_t dim,
                   float scale, float* scores) {
  int64_t i = 0;
  for (; i + 2 * Vec::kLanes <= tokens; i += 2 * Vec::kLanes) {
    score<kQueries, 2>(queries, keys + i, tokens, Vec::kLanes, dim, scale, scores + i);
  }
  for (; i < tokens; i += Vec::kLanes) {
    const int64_t lanes = least(Vec::kLanes, tokens - i);
    score<kQueries, 1>(queries, keys + i, tokens, lanes, dim, scale, scores + i);
  }
}

// Turns a query's scores into probabilities relative to its new maximum, 0 outside of `range`, and
// brings sum and accumulator to that maximum.
void soften(Queries& all, int64_t query, Range range) {
  float* scores = all.scores + query * kBlock;
  for (int64_t j = 0; j < range.begin; ++j) scores[j] = -kInfinity;
  for (int64_t j = range.end; j < kBlock; ++j) scores[j] = -kInfinity;
  Vec s[4];
  for (int i = 0; i < 4; ++i) s[i] = Vec::load(scores + i * Vec::kLanes);
  const float block_highest = max_lane(max(max(s[0], s[1]), max(s[2], s[3])));
  const float before = all.highest[query];
  const float highest = before > block_highest ? before : block_highest;
  for (int i = 0; i < 4; ++i) {
    s[i] = exp(s[i] - Vec::splat(highest));
    s[i].store(scores + i * Vec::kLanes);
  }
  const float block_total = sum_block(s[0], s[1], s[2], s[3]);
  if (highest == before) {
    all.total[query] = all.total[query] + block_total;
    return;
  }
  const Vec shrink = exp(Vec::splat(before - highest));
  float* accumulator = all.accumulator + query * all.padded_dim;
  for (int64_t d = 0; d < all.padded_dim; d += Vec::kLanes) {
    (Vec::load(accumulator + d) * shrink).store(accumulator + d);
  }
  all.highest[query] = highest;
  all.total[query] = all.total[query] * max_lane(shrink) + block_total;
}

// accumulator[q] += probability[q][j] * value[j] for keys j of a range, in order, over kVecs
// vectors of columns; `lanes` of the last one count.
template <int kQueries, int kVecs, typename T>
void weigh_columns(float* accumulator, int64_t padded_dim, const float* probability,
                   const T* values, int64_t dim, int64_t lanes, Range range) {
  Vec sums[kQueries][kVecs];
#pragma GCC unroll 4
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 2
    for (int i = 0; i < kVecs; ++i) {
      sums[q][i] = Vec::load(accumulator + q * padded_dim + i * Vec::kLanes);
    }
  }
  for (int64_t j = range.begin; j < range.end; ++j) {
    Vec value[kVecs];
#pragma GCC unroll 2
    for (int i = 0; i < kVecs; ++i) {
      const T* from = values + j * dim + i * Vec::kLanes;
      value[i] = lanes == Vec::kLanes ? Vec::load(from) : Vec::load(from, lanes);
    }
#pragma GCC unroll 4
    for (int q = 0; q < kQueries; ++q) {
      const Vec p = Vec::splat(probability[q * kBlock + j]);
#pragma GCC unroll 2
      for (int i = 0; i < kVecs; ++i) sums[q][i] = fma(p, value[i], sums[q][i]);
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 2
    for (int i = 0; i < kVecs; ++i) {
      sums[q][i].store(accumulator + q * padded_dim + i * Vec::kLanes);
    }
  }
}

template <int kQueries, typename T>
void weigh(Queries& all, int64_t query, const T* values, int64_t first_token, int64_t dim,
           Range range) {
  if (range.begin >= range.end) return;
  float* accumulator = all.accumulator + query * all.padded_dim;
  const float* probability = all.scores + query * kBlock + first_token;
  const Range local = {range.begin - first_token, range.end - first_token};
  int64_t d = 0;
  for (; d + 2 * Vec::kLanes <= dim; d += 2 * Vec::kLanes) {
    weigh_columns<kQueries, 2>(accumulator + d, all.padded_dim, probability, values + d, dim,
                               Vec::kLanes, local);
  }
  for (; d < dim; d += Vec::kLanes) {
    weigh_columns<kQueries, 1>(accumulator + d, all.padded_dim, probability, values + d, dim,
                               least(Vec::kLanes, dim - d), local);
  }
}

Range cut(Range range, int64_t begin, int64_t end) {
  return {most(range.begin, begin), least(range.end, end)};
}

// What the queries [query, query + kQueries) see of the block at `block_begin`.
template <int kQueries, typename T>
void attend_tile(const Call& call, Queries& all, int64_t query, const Segment<T>* segments,
                 int64_t tokens, int64_t block_begin) {
  Range seen[kQueries], any = {kBlock, 0}, every = {0, kBlock};
  for (int q = 0; q < kQueries; ++q) {
    const int64_t position = all.position[query + q];
    seen[q] = cut({call.first_key(position) - block_begin, position + 1 - block_begin}, 0, kBlock);
    if (seen[q].begin >= seen[q].end) seen[q] = {0, 0};
    every = cut(every, seen[q].begin, seen[q].end);
    if (seen[q].end == 0) continue;
    any = {least(any.begin, seen[q].begin), most(any.end, seen[q].end)};
  }
  for (int64_t begin = 0; begin < any.end; begin += tokens) {
    if (begin + tokens <= any.begin) continue;
    score_segment<kQueries>(all.query + query, segments[begin / tokens].keys, tokens, call.dim,
                            call.args.attrs.scale, all.scores + query * kBlock + begin);
  }
  for (int q = 0; q < kQueries; ++q) {
    if (seen[q].end > 0) soften(all, query + q, seen[q]);
  }
  // Keys that all of the tile see are weighed together, those before and after one by one: each
  // query takes its own keys in order, and never touches a value it does not see.
  if (every.begin >= every.end) every = {any.end, any.end};
  for (int64_t begin = 0; begin < any.end; begin += tokens) {
    const T* values = segments[begin / tokens].values;
    const int64_t end = begin + tokens;
    for (int q = 0; q < kQueries; ++q) {
      const Range before = {seen[q].begin, least(seen[q].end, every.begin)};
      weigh<1>(all, query + q, values, begin, call.dim, cut(before, begin, end));
    }
    weigh<kQueries>(all, query, values, begin, call.dim, cut(every, begin, end));
    for (int q = 0; q < kQueries; ++q) {
      const Range after = {most(seen[q].begin, every.end), seen[q].end};
      weigh<1>(all, query + q, values, begin, call.dim, cut(after, begin, end));
    }
  }
}

template <typename T>
void attend_block(const Call& call, Queries& all, const Segment<T>* segments, int64_t tokens,
                  int64_t block_begin) {
  int64_t query = 0;
  for (; query + kTileQueries <= all.count; query += kTileQueries) {
    attend_tile<kTileQueries>(call, all, query, segments, tokens, block_begin);
  }
  for (; query < all.count; ++query) {
    attend_tile<1>(call, all, query, segments, tokens, block_begin);
  }
}

// The pages of a block side by side as float32.
template <typename T>
Segment<float> gather(const Call& call, const Segment<T>* segments, int64_t count, float* to) {
  float* keys = to;
  float* values = to + call.dim * kBlock;
  for (int64_t s = 0; s < count; ++s) {
    if (segments[s].keys == nullptr) continue;
    const int64_t tokens = call.page_tokens, begin = s * tokens;
    for (int64_t d = 0; d < call.dim; ++d) {
      for (int64_t i = 0; i < tokens; i += Vec::kLanes) {
        const int64_t lanes = least(Vec::kLanes, tokens - i);
        Vec::load(segments[s].keys + d * tokens + i, lanes)
            .store(keys + d * kBlock + begin + i, lanes);
      }
    }
    for (int64_t i = 0; i < tokens * call.dim; i += Vec::kLanes) {
      const int64_t lanes = least(Vec::kLanes, tokens * call.dim - i);
      Vec::load(segments[s].values + i, lanes).store(values + begin * call.dim + i, lanes);
    }
  }
  return {keys, values};
}

// All queries of one KV head over rows [begin, end) of one sequence.
template <typename T>
void attend(const Call& call, Queries& all, const StepSequence& sequence, int64_t kv_head) {
  for (int64_t i = 0; i < all.count; ++i) {
    all.highest[i] = -kInfinity;
    all.total[i] = 0;
  }
  for (int64_t i = 0; i < all.count * all.padded_dim; ++i) all.accumulator[i] = 0;
  const int64_t last = all.position[all.count - 1];
  const bool gathers = all.count >= kGatherQueries &&
                       (sizeof(T) < sizeof(float) || call.page_tokens < 2 * Vec::kLanes);
  const int64_t first = call.first_key(all.position[0]);
  for (int64_t block = first / kBlock * kBlock; block <= last; block += kBlock) {
    Segment<T> segments[kBlock];
    int64_t count = 0;
    for (int64_t at = block; at <= last && at < block + kBlock; at += call.page_tokens) {
      if (at + call.page_tokens <= first) {  // Out of the window: the page may be gone.
        segments[count++] = {nullptr, nullptr};
        continue;
      }
      const T* keys = call.page<T>(sequence, at, kv_head);
      segments[count++] = {keys, keys + call.dim * call.page_tokens};
    }
    if (gathers) {
      const Segment<float> whole = gather(call, segments, count, all.gathered);
      attend_block(call, all, &whole, kBlock, block);
    } else {
      attend_block(call, all, segments, call.page_tokens, block);
    }
  }
  for (int64_t i = 0; i < all.count; ++i) {
    const float* accumulator = all.accumulator + i * all.padded_dim;
    for (int64_t d = 0; d < call.dim; d += Vec::kLanes) {
      (Vec::load(accumulator + d) / Vec::splat(all.total[i])).store(all.out[i] + d, call.dim - d);
    }
  }
}

Queries lay_out(std::byte* scratch, const AttentionScratch& sizes, int64_t dim) {
  Queries all;
  all.padded_dim = sizes.padded_dim;
  all.out = reinterpret_cast<float**>(scratch);
  all.query = reinterpret_cast<const float**>(scratch + sizes.queries * sizeof(float*));
  all.position = reinterpret_cast<int64_t*>(scratch + 2 * sizes.queries * sizeof(float*));
  all.accumulator = reinterpret_cast<float*>(all.position + sizes.queries);
  all.scores = all.accumulator + sizes.queries * sizes.padded_dim;
  all.gathered = all.scores + sizes.queries * kBlock;
  all.highest = all.gathered + 2 * kBlock * dim;
  all.total = all.highest + sizes.queries;
  return all;
}

// Rows [begin, end) for one KV head: each run of rows of the same sequence in turn.
template <typename T>
void attend_rows(const Call& call, Queries& all, int64_t begin, int64_t end, int64_t kv_head) {
  const StepView& step = *call.args.step;
  for (int64_t row = begin; row < end;) {
    const int32_t sequence = step.sequence_of_row[row];
    all.count = 0;
    for (; row < end && step.sequence_of_row[row] == sequence; ++row) {
      for (int64_t head = 0; head < call.args.attrs.heads; ++head) {
        if (call.kv_head_of(head) != kv_head) continue;
        all.query[all.count] = call.args.in[0].row<float>(row) + head * call.dim;
        all.out[all.count] = call.args.out[0].row<float>(row) + head * call.dim;
        all.position[all.count++] = step.positions[row];
      }
    }
    if (all.count > 0) attend<T>(call, all, step.sequences[sequence], kv_head);
  }
}

template <typename T>
void attention(const KernelArgs& args) {
  const KernelAttrs& attrs = args.attrs;
  const int64_t rows = args.step->rows;
  if (rows <= 0 || attrs.kv_heads <= 0) return;
  const Call call = {args, attrs.head_dim, args.state.page_tokens};
  Parallel& parallel = *args.parallel;
  for_rows(parallel, rows, call.args.in[1].cols, [&](int64_t row) { append_row<T>(call, row); });

  int64_t group = 1;
  for (int64_t kv_head = 0; kv_head < attrs.kv_heads; ++kv_head) {
    int64_t size = 0;
    for (int64_t head = 0; head < attrs.heads; ++head) size += call.kv_head_of(head) == kv_head;
    group = most(group, size);
  }
  // Large tasks read keys once for many rows; but every thread wants some.
  const int64_t shared = rows * attrs.kv_heads / (4 * parallel.threads());
  const int64_t rows_each = most(1, least(kTaskQueries / group, shared));
  const int64_t row_blocks = (rows + rows_each - 1) / rows_each;
  const AttentionScratch sizes = attention_scratch(attrs.heads, attrs.head_dim);
  for_each(parallel, row_blocks * attrs.kv_heads, [&](int64_t task, int thread) {
    // Late rows see the most keys: they go first.
    const int64_t row = (row_blocks - 1 - task / attrs.kv_heads) * rows_each;
    Queries all = lay_out(args.scratch + thread * sizes.thread_bytes, sizes, call.dim);
    attend_rows<T>(call, all, row, least(rows, row + rows_each), task % attrs.kv_heads);
  });
}

}  // namespace

void attention_f32(const KernelArgs& args) { attention<float>(args); }
void attention_bf16(const KernelArgs& args) { attention<uint16_t>(args); }

}  // namespace lockstep::LOCKSTEP_ISA
