// SPDX-License-Identifier: Apache-2.0
// Appends k and v of the step's rows to the layer's pages (not if read_only). Then computes for
// every row and query head: out = sum over keys j of softmax(scale * q . k_j, capped, plus slope *
// (j - the row's position)) v_j. A row sees the keys up to its own position: with a window only the
// last `window` of them, with chunks only the keys of its own chunk. Rows of the sequence's prefix
// see the whole prefix. The head's sink is one more score in the softmax, without a value. Keys are
// processed in blocks of kKeyBlock from position 0 on, with a running maximum and sum. The sums of
// every kPart positions are then merged, in order. So the bits depend on the position alone, and
// several threads may process the keys of one row. If values are in keys, a block's values are
// extracted once for all queries of a task.
#include "worker/kernels/cpu/attention/attention_pages.h"
#include "worker/kernels/cpu/attention/attention_queries.h"
#include "worker/kernels/cpu/attention/attention_scores.h"
#include "worker/kernels/cpu/attention/attention_tile.h"
#include "worker/kernels/cpu/chunks.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

// Adds the value of `key`. The query does not see the other key of the pair, so that key's value
// counts as zeros: a weight of 0 is not enough, since 0 * NaN is NaN.
template <typename F>
void add_pv_edge(float* accumulator, int64_t padded, const typename F::Factor* weights,
                 const KeyBlock<F>& block, int64_t key) {
  static_assert(F::kPack == 2);
  const int64_t first = key / 2 * 2;
  const uint32_t seen = key == first ? 0x0000ffffu : 0xffff0000u;
  const auto weight = F::splat(weights + first);  // The hidden key's weight is 0.
  const typename F::Element* from =
      block.values[key / kChunk] + value_at<F>(first % kChunk, 0, block.v_stride);
  for (int64_t d = 0; d < padded; d += Vec::kLanes) {
    uint32_t both[Vec::kLanes];
    __builtin_memcpy(both, from + d * 2, sizeof(both));
    for (uint32_t& pair : both) pair &= seen;
    typename F::Element kept[2 * Vec::kLanes];
    __builtin_memcpy(kept, both, sizeof(both));
    F::dot(weight, F::load(kept), Vec::load(accumulator + d)).store(accumulator + d);
  }
}

// Adds the values of the keys in `range` for one query. Not all queries of its tile see these keys.
template <typename F>
void add_pv_alone(float* accumulator, int64_t padded, const typename F::Factor* weights,
                  const KeyBlock<F>& block, KeyRange range) {
  if (range.begin >= range.end) return;
  if constexpr (F::kPack == 2) {
    if (range.begin % 2 != 0) add_pv_edge<F>(accumulator, padded, weights, block, range.begin++);
    const int64_t even = range.end / 2 * 2;
    if (range.begin < even) {
      add_pv<F, 1>(accumulator, padded, weights, nullptr, block, block, range.begin, even);
    }
    if (range.end != even) add_pv_edge<F>(accumulator, padded, weights, block, even);
  } else {
    add_pv<F, 1>(accumulator, padded, weights, nullptr, block, block, range.begin, range.end);
  }
}

// The PV product of a block. Keys that all queries of the tile see are processed together. Keys
// before and after them are processed for each query alone: a query adds its own keys in order, and
// never reads a value that it does not see. Integer sums do not depend on order and codes are never
// NaN, so with codes all keys are processed together.
template <typename F, int kQueries>
void add_pv_tile(const Queries<F>& all, int64_t query, const KeyBlock<F>& block,
                 const KeyBlock<F>& ahead, const KeyRange (&seen)[kQueries], KeyRange any) {
  const int64_t padded = all.v_padded;
  float* accumulator = all.part.accumulator + query * padded;
  KeyRange every = F::kScaled ? any : KeyRange{0, kKeyBlock};
  if constexpr (F::kScaled) {
    every = {any.begin / F::kPack * F::kPack, (any.end + F::kPack - 1) / F::kPack * F::kPack};
  } else {
    for (const KeyRange& range : seen) every = cut(every, range.begin, range.end);
    every = {(every.begin + F::kPack - 1) / F::kPack * F::kPack, every.end / F::kPack * F::kPack};
    if (every.begin >= every.end) every = {any.end, any.end};
    for (int q = 0; q < kQueries && any.begin < every.begin; ++q) {
      add_pv_alone<F>(accumulator + q * padded, padded, all.weights + q * kKeyBlock, block,
                      {seen[q].begin, min(seen[q].end, every.begin)});
    }
  }
  if (every.begin < every.end) {
    add_pv<F, kQueries>(accumulator, padded, all.weights, all.fit, block, ahead, every.begin,
                        every.end);
  }
  if constexpr (!F::kScaled) {
    for (int q = 0; q < kQueries && every.end < any.end; ++q) {
      add_pv_alone<F>(accumulator + q * padded, padded, all.weights + q * kKeyBlock, block,
                      {max(seen[q].begin, every.end), seen[q].end});
    }
  }
}

// Processes the block at `begin` for queries [query, query + kQueries).
template <typename F, int kQueries>
void attend_tile(const AttentionJob<F>& job, Queries<F>& all, int64_t query,
                 const KeyBlock<F>& block, const KeyBlock<F>& ahead, int64_t begin) {
  constexpr int kVecs = tile_vectors(kQueries);
  KeyRange seen[kQueries], any = {kKeyBlock, 0};
  for (int q = 0; q < kQueries; ++q) {
    const int64_t position = all.position[query + q];
    const int64_t end = max(position + 1, all.prefix_rows);
    seen[q] = cut({first_seen(job.attrs, position) - begin, end - begin}, 0, kKeyBlock);
    if (seen[q].begin >= seen[q].end) seen[q] = {0, 0};
    if (seen[q].end == 0) continue;
    any = {min(any.begin, seen[q].begin), max(any.end, seen[q].end)};
  }
  for (int64_t key = 0; key < any.end; key += kVecs * kChunk) {
    if (key + kVecs * kChunk <= any.begin) continue;
    score<F, kQueries, kVecs>(all.query + query * all.k_padded, all.k_padded, block, ahead,
                              key / kChunk, all.scale + query, all.scores + key);
  }
  if (job.attrs.cap != 0) cap_scores(all.scores, kQueries, any, job.attrs.cap);
  if (!job.attrs.slopes.empty()) add_slopes(all, query, kQueries, any, begin);
  softmax_block(all, query, kQueries, block, seen);
  add_pv_tile<F, kQueries>(all, query, block, ahead, seen, any);
}

// Processes all queries from `query` on, in tiles of kQueries, then of fewer. The first tile
// prefetches the next block, `ahead`.
template <typename F, int kQueries>
void attend_block(const AttentionJob<F>& job, Queries<F>& all, int64_t query,
                  const KeyBlock<F>& block, const KeyBlock<F>& ahead, int64_t begin) {
  for (; query + kQueries <= all.count; query += kQueries) {
    attend_tile<F, kQueries>(job, all, query, block, query == 0 ? ahead : block, begin);
  }
  if constexpr (kQueries > 1) attend_block<F, kQueries - 1>(job, all, query, block, ahead, begin);
}

// Processes the keys of part `part` into all.part.
template <typename F>
void attend_part(const VisibleKeys<F>& keys, Queries<F>& all, int64_t part) {
  all.part.clear(all.count, all.v_padded);
  const int64_t first = max(keys.first, part * kPart) / kKeyBlock * kKeyBlock;
  const int64_t end = min(keys.last + 1, (part + 1) * kPart);
  KeyBlock<F> block = keys.block(first);
  for (int64_t begin = first; begin < end; begin += kKeyBlock) {
    const KeyBlock<F> ahead = keys.block(begin + kKeyBlock);
    if (keys.values != nullptr) keys.take_values(block, begin);
    attend_block<F, kTileQueries>(keys.job, all, 0, block, ahead, begin);
    block = ahead;
  }
}

// Collects the queries of those rows in [row, end) that belong to the sequence of `row`. Returns
// the row after them.
template <typename F>
int64_t collect(const AttentionJob<F>& job, Queries<F>& all, int64_t row, int64_t end,
                int64_t kv_head) {
  const KernelArgs& args = job.args;
  const AttentionAttrs& attrs = args.attrs.attention();
  const StepView& step = *args.step;
  const int32_t sequence = step.sequence_of_row[row];
  all.count = 0;
  all.prefix_rows = step.sequences[sequence].prefix_rows;
  for (; row < end && step.sequence_of_row[row] == sequence; ++row) {
    for (int64_t head = 0; head < attrs.heads; ++head) {
      if (attrs.kv_head_of[head] != kv_head) continue;
      const float* query = args.in[0].row<float>(row) + head * attrs.head_dim;
      const float scale = F::scale_of(query, attrs.head_dim, job.max_factor);
      for (int64_t d = 0; d < all.k_padded; d += Vec::kLanes) {
        F::encode(Vec::load(query + d, attrs.head_dim - d), scale,
                  all.query + all.count * all.k_padded + d);
      }
      all.scale[all.count] = attrs.scale * scale * kPerLn2;
      if (!attrs.slopes.empty()) all.slope[all.count] = attrs.slopes[head] * kPerLn2;
      if (job.sinks != nullptr) all.sink[all.count] = job.sinks[head] * kPerLn2;
      all.out[all.count] = args.out[0].row<float>(row) + head * attrs.v_dim;
      all.position[all.count++] = step.positions[row];
    }
  }
  return row;
}

template <typename F>
VisibleKeys<F> keys_of(const AttentionJob<F>& job, const Queries<F>& all, int64_t row,
                       int64_t kv_head) {
  const StepView& step = *job.args.step;
  const StepSequence& sequence = step.sequences[step.sequence_of_row[row]];
  return {job,
          sequence,
          kv_head,
          first_seen(job.attrs, all.position[0]),
          sequence.last_seen(all.position[all.count - 1]),
          all.values};
}

template <typename F>
void finish_queries(const AttentionJob<F>& job, const Queries<F>& all) {
  if (job.sinks != nullptr) add_sinks(all.whole, all.sink, all.count, all.v_padded);
  finish(all.whole, all.out, all.count, job.attrs.v_dim, all.v_padded);
}

// Processes rows [begin, end) for one KV head, in runs of rows that belong to one sequence.
template <typename F>
void attend_rows(const AttentionJob<F>& job, Queries<F>& all, int64_t begin, int64_t end,
                 int64_t kv_head) {
  [[maybe_unused]] const typename F::Guard guard;
  while (begin < end) {
    const int64_t row = begin;
    begin = collect(job, all, row, end, kv_head);
    if (all.count == 0) continue;
    const VisibleKeys<F> keys = keys_of(job, all, row, kv_head);
    all.whole.clear(all.count, all.v_padded);
    for (int64_t part = keys.first / kPart; part <= keys.last / kPart; ++part) {
      attend_part(keys, all, part);
      merge(all.whole, all.part, all.count, all.v_padded);
    }
    finish_queries(job, all);
  }
}

// Used if a step has few (row, KV head) pairs per thread. Then the parts of a row's keys are
// distributed over threads, a batch of parts at a time. Each part has its own sums, which are then
// merged in order.
template <typename F>
struct SharedParts {
  const AttentionJob<F>& job;
  const AttentionScratch& sizes;
  std::byte* scratch;  // After the threads' scratch.

  struct Piece {
    int64_t row;
    int64_t kv_head;
    int64_t part;
  };
  int64_t first_part(int64_t row) const {
    return first_seen(job.attrs, job.args.step->positions[row]) / kPart;
  }
  int64_t parts(int64_t row) const {
    const StepView& step = *job.args.step;
    const StepSequence& sequence = step.sequences[step.sequence_of_row[row]];
    return sequence.last_seen(step.positions[row]) / kPart + 1 - first_part(row);
  }
  int64_t pieces() const {
    int64_t count = 0;
    for (int64_t row = 0; row < job.args.step->rows; ++row) count += parts(row);
    return count * job.attrs.kv_heads;
  }
  Piece piece(int64_t index) const {
    int64_t row = 0;
    const int64_t kv_heads = job.attrs.kv_heads;
    for (; index >= parts(row) * kv_heads; ++row) index -= parts(row) * kv_heads;
    return {row, index / parts(row), first_part(row) + index % parts(row)};
  }
  Queries<F> queries(int thread) const {
    return lay_out<F>(job.args.scratch + thread * sizes.thread_bytes, sizes);
  }
  Softmax partial(int64_t index) const {
    return lay_out_sums(scratch + index * sizes.partial_bytes, sizes.heads, sizes.v_padded);
  }

  void attend(const Piece& piece, const Softmax& into, int thread) const {
    [[maybe_unused]] const typename F::Guard guard;
    Queries<F> all = queries(thread);
    all.part = into;
    collect(job, all, piece.row, piece.row + 1, piece.kv_head);
    if (all.count > 0) attend_part(keys_of(job, all, piece.row, piece.kv_head), all, piece.part);
  }
  void add(const Piece& piece, const Softmax& found) const {
    [[maybe_unused]] const typename F::Guard guard;
    Queries<F> all = queries(0);
    collect(job, all, piece.row, piece.row + 1, piece.kv_head);
    if (piece.part == first_part(piece.row)) all.whole.clear(all.count, all.v_padded);
    merge(all.whole, found, all.count, all.v_padded);
    if (piece.part + 1 < first_part(piece.row) + parts(piece.row)) return;
    finish_queries(job, all);
  }
  void run(Parallel& parallel) const {
    const int64_t count = pieces(), partials = parallel.threads() * kThreadPartials;
    for (int64_t begin = 0; begin < count; begin += partials) {
      const int64_t some = min(partials, count - begin);
      for_each(parallel, some, [&](int64_t index, int thread) {
        attend(piece(begin + index), partial(index), thread);
      });
      for (int64_t index = 0; index < some; ++index) add(piece(begin + index), partial(index));
    }
  }
};

template <typename F>
const char* attention(const KernelArgs& args) {
  const AttentionAttrs& attrs = args.attrs.attention();
  const int64_t rows = args.step->rows;
  if (rows <= 0 || attrs.kv_heads <= 0) return nullptr;
  const AttentionJob<F> job(args);
  Parallel& parallel = *args.parallel;
  if (!attrs.read_only) {
    for_rows(parallel, rows, args.in[1].cols, [&](int64_t row) { append_row(job, row); });
  }

  int64_t group = 1;
  for (int64_t kv_head = 0; kv_head < attrs.kv_heads; ++kv_head) {
    int64_t size = 0;
    for (int64_t head = 0; head < attrs.heads; ++head) size += attrs.kv_head_of[head] == kv_head;
    group = max(group, size);
  }
  const AttentionScratch sizes = attention_scratch(attrs);
  const int threads = parallel.threads();
  const SharedParts<F> shared_parts = {job, sizes, args.scratch + threads * sizes.thread_bytes};
  if (threads > 1 && rows * attrs.kv_heads < 2 * threads &&
      shared_parts.pieces() > rows * attrs.kv_heads) {
    shared_parts.run(parallel);
    return nullptr;
  }
  // Large tasks read keys once for many rows, but every thread needs a task.
  const int64_t shared = rows * attrs.kv_heads / (4 * threads);
  const int64_t rows_each = max(1, min(kTaskQueries / group, shared));
  const int64_t row_blocks = (rows + rows_each - 1) / rows_each;
  for_each(parallel, row_blocks * attrs.kv_heads, [&](int64_t task, int thread) {
    // Late rows see the most keys: they are processed first.
    const int64_t row = (row_blocks - 1 - task / attrs.kv_heads) * rows_each;
    Queries<F> all = lay_out<F>(args.scratch + thread * sizes.thread_bytes, sizes);
    attend_rows(job, all, row, min(rows, row + rows_each), task % attrs.kv_heads);
  });
  return nullptr;
}

}  // namespace

const char* attention_f32(const KernelArgs& args) { return attention<KvF32>(args); }
const char* attention_bf16(const KernelArgs& args) { return attention<KvBF16>(args); }
const char* attention_i8(const KernelArgs& args) { return attention<KvI8>(args); }

}  // namespace lockstep::LOCKSTEP_ISA
