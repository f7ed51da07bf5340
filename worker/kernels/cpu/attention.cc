// SPDX-License-Identifier: Apache-2.0
// Appends k and v of the step's rows to the layer's pages, then for every row and query head
// out = sum over keys j of softmax(scale * q . k_j) v_j, over the keys up to the row's own position
// (the last `window` of them). Keys are taken in blocks of kKeyBlock from position 0 on, with
// a running maximum and sum; those of every kPart positions are then merged, in order. So the bits
// depend on the position alone, and threads may share the keys of one row.
#include "worker/kernels/cpu/attention_queries.h"
#include "worker/kernels/cpu/attention_tile.h"
#include "worker/kernels/cpu/chunks.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

// Of so many pages in a row, the chunks of a KV head lie side by side: a sequence mostly has
// neighbours, so that its keys are long stretches of memory, which processors read ahead best.
constexpr int64_t kRunPages = 16;

template <typename F>
struct Call {
  const KernelArgs& args;
  int64_t padded;
  int64_t chunk_bytes;
  int page_shift;     // A page has 1 << page_shift chunks.
  float most_factor;  // Of a query: a sum of padded products with codes of 8 bits must fit 31.

  explicit Call(const KernelArgs& call)
      : args(call),
        padded(padded_dim(call.attrs.head_dim)),
        chunk_bytes(kv_chunk_bytes(call.attrs.head_dim, call.state.dtype)),
        page_shift(__builtin_ctzll(static_cast<uint64_t>(call.state.page_tokens / kChunk))),
        most_factor(static_cast<float>(least(32767, 0x7fffffff / 128 / padded))) {}

  typename F::Element* chunk(const StepSequence& sequence, int64_t position,
                             int64_t kv_head) const {
    const int64_t number = position / kChunk, page = sequence.pages[number >> page_shift];
    const int64_t run = page / kRunPages * kRunPages;
    const int64_t in_run = kv_head * least(kRunPages, args.state.pages - run) + page - run;
    const int64_t in_page = number & ((1 << page_shift) - 1);
    return reinterpret_cast<typename F::Element*>(args.state.data + run * args.state.page_bytes +
                                                  ((in_run << page_shift) + in_page) * chunk_bytes);
  }
  int64_t first_key(int64_t position) const {
    return args.attrs.window > 0 ? most(0, position - args.attrs.window + 1) : 0;
  }
};

// The keys of a KV head that some queries see, [first, last], and where they are.
template <typename F>
struct Keys {
  const Call<F>& call;
  const StepSequence& sequence;
  int64_t kv_head;
  int64_t first;
  int64_t last;

  // Chunks that nobody sees may be gone: others stand in their place.
  Block<F> block(int64_t begin) const {
    Block<F> found;
    for (int64_t i = 0; i < kBlockChunks; ++i) {
      const int64_t position = least(most(begin + i * kChunk, first), last);
      found.chunk[i] = call.chunk(sequence, position, kv_head);
    }
    return found;
  }
};

template <typename F>
void append_row(const Call<F>& call, int64_t row) {
  const KernelArgs& args = call.args;
  const StepView& step = *args.step;
  const int64_t position = step.positions[row], slot = position % kChunk;
  const StepSequence& sequence = step.sequences[step.sequence_of_row[row]];
  const int64_t dim = args.attrs.head_dim;
  for (int64_t head = 0; head < args.attrs.kv_heads; ++head) {
    const float* k = args.in[1].row<float>(row) + head * dim;
    const float* v = args.in[2].row<float>(row) + head * dim;
    const float k_scale = F::scale_of(k, dim, F::kMostCode);
    const float v_scale = F::scale_of(v, dim, F::kMostCode);
    typename F::Element* to = call.chunk(sequence, position, head);
    for (int64_t d = 0; d < call.padded; d += Vec::kLanes) {
      typename F::Element key[Vec::kLanes], value[Vec::kLanes];
      F::encode(Vec::load(k + d, dim - d), k_scale, key);
      F::encode(Vec::load(v + d, dim - d), v_scale, value);
      for (int64_t i = 0; i < Vec::kLanes; ++i) {
        to[key_at<F>(slot, d + i)] = key[i];
        to[value_at<F>(slot, d + i, call.padded)] = value[i];
      }
    }
    if constexpr (F::kScaled) {
      float* scales = scales_of(to, call.padded);
      scales[slot] = k_scale + v_scale * 0;  // A NaN among the values shows in the score.
      scales[kChunk + slot] = v_scale;
    }
  }
}

// The seen keys of a pack of which one is hidden, by itself, so that what it hides is not touched.
template <typename F>
void weigh_edge(float* accumulator, int64_t padded, const typename F::Factor* weights,
                const Block<F>& block, int64_t key) {
  static_assert(F::kPack == 2);
  const int64_t first = key / 2 * 2;
  const uint32_t seen = key == first ? 0x0000ffffu : 0xffff0000u;
  const auto weight = F::splat(weights + first);  // The hidden one's is 0.
  const typename F::Element* from =
      block.chunk[key / kChunk] + value_at<F>(first % kChunk, 0, padded);
  for (int64_t d = 0; d < padded; d += Vec::kLanes) {
    uint32_t both[Vec::kLanes];
    __builtin_memcpy(both, from + d * 2, sizeof(both));
    for (uint32_t& pair : both) pair &= seen;
    typename F::Element kept[2 * Vec::kLanes];
    __builtin_memcpy(kept, both, sizeof(both));
    F::dot(weight, F::load(kept), Vec::load(accumulator + d)).store(accumulator + d);
  }
}

// One query's keys of `range` that it does not share with all of its tile.
template <typename F>
void weigh_alone(float* accumulator, int64_t padded, const typename F::Factor* weights,
                 const Block<F>& block, Range range) {
  if (range.begin >= range.end) return;
  if constexpr (F::kPack == 2) {
    if (range.begin % 2 != 0) weigh_edge<F>(accumulator, padded, weights, block, range.begin++);
    const int64_t even = range.end / 2 * 2;
    if (range.begin < even) {
      weigh<F, 1>(accumulator, padded, weights, nullptr, block, block, range.begin, even);
    }
    if (range.end != even) weigh_edge<F>(accumulator, padded, weights, block, even);
  } else {
    weigh<F, 1>(accumulator, padded, weights, nullptr, block, block, range.begin, range.end);
  }
}

// The queries' values over a block. Keys that all of the tile see are weighed together, those
// before and after one by one: each query takes its own keys in order, and never touches a value it
// does not see. Integer sums don't mind the order, and codes are never NaN: there all goes
// together.
template <typename F, int kQueries>
void weigh_tile(const Queries<F>& all, int64_t query, const Block<F>& block, const Block<F>& ahead,
                const Range (&seen)[kQueries], Range any) {
  float* accumulator = all.part.accumulator + query * all.padded;
  Range every = F::kScaled ? any : Range{0, kKeyBlock};
  if constexpr (F::kScaled) {
    every = {any.begin / F::kPack * F::kPack, (any.end + F::kPack - 1) / F::kPack * F::kPack};
  } else {
    for (const Range& range : seen) every = cut(every, range.begin, range.end);
    every = {(every.begin + F::kPack - 1) / F::kPack * F::kPack, every.end / F::kPack * F::kPack};
    if (every.begin >= every.end) every = {any.end, any.end};
    for (int q = 0; q < kQueries && any.begin < every.begin; ++q) {
      weigh_alone<F>(accumulator + q * all.padded, all.padded, all.weights + q * kKeyBlock, block,
                     {seen[q].begin, least(seen[q].end, every.begin)});
    }
  }
  if (every.begin < every.end) {
    weigh<F, kQueries>(accumulator, all.padded, all.weights, all.fit, block, ahead, every.begin,
                       every.end);
  }
  if constexpr (!F::kScaled) {
    for (int q = 0; q < kQueries && every.end < any.end; ++q) {
      weigh_alone<F>(accumulator + q * all.padded, all.padded, all.weights + q * kKeyBlock, block,
                     {most(seen[q].begin, every.end), seen[q].end});
    }
  }
}

// What the queries [query, query + kQueries) see of the block at `begin`.
template <typename F, int kQueries>
void attend_tile(const Call<F>& call, Queries<F>& all, int64_t query, const Block<F>& block,
                 const Block<F>& ahead, int64_t begin) {
  constexpr int kVecs = tile_vectors(kQueries);
  Range seen[kQueries], any = {kKeyBlock, 0};
  for (int q = 0; q < kQueries; ++q) {
    const int64_t position = all.position[query + q];
    seen[q] = cut({call.first_key(position) - begin, position + 1 - begin}, 0, kKeyBlock);
    if (seen[q].begin >= seen[q].end) seen[q] = {0, 0};
    if (seen[q].end == 0) continue;
    any = {least(any.begin, seen[q].begin), most(any.end, seen[q].end)};
  }
  for (int64_t key = 0; key < any.end; key += kVecs * kChunk) {
    if (key + kVecs * kChunk <= any.begin) continue;
    score<F, kQueries, kVecs>(all.query + query * all.padded, all.padded, block, ahead,
                              key / kChunk, all.scale + query, all.scores + key);
  }
  soften(all, query, kQueries, block, seen);
  weigh_tile<F, kQueries>(all, query, block, ahead, seen, any);
}

// All queries from `query` on, in tiles of kQueries, then of fewer. The first tile fetches what
// lies ahead.
template <typename F, int kQueries>
void attend_block(const Call<F>& call, Queries<F>& all, int64_t query, const Block<F>& block,
                  const Block<F>& ahead, int64_t begin) {
  for (; query + kQueries <= all.count; query += kQueries) {
    attend_tile<F, kQueries>(call, all, query, block, query == 0 ? ahead : block, begin);
  }
  if constexpr (kQueries > 1) attend_block<F, kQueries - 1>(call, all, query, block, ahead, begin);
}

// The keys of part `part` into all.part.
template <typename F>
void attend_part(const Keys<F>& keys, Queries<F>& all, int64_t part) {
  all.part.clear(all.count, keys.call.padded);
  const int64_t first = most(keys.first, part * kPart) / kKeyBlock * kKeyBlock;
  const int64_t end = least(keys.last + 1, (part + 1) * kPart);
  Block<F> block = keys.block(first);
  for (int64_t begin = first; begin < end; begin += kKeyBlock) {
    const Block<F> ahead = keys.block(begin + kKeyBlock);
    attend_block<F, kTileQueries>(keys.call, all, 0, block, ahead, begin);
    block = ahead;
  }
}

// The queries of rows from `row` on, of the same sequence and before `end`; the row after them.
template <typename F>
int64_t collect(const Call<F>& call, Queries<F>& all, int64_t row, int64_t end, int64_t kv_head) {
  const KernelArgs& args = call.args;
  const KernelAttrs& attrs = args.attrs;
  const StepView& step = *args.step;
  const int32_t sequence = step.sequence_of_row[row];
  all.count = 0;
  for (; row < end && step.sequence_of_row[row] == sequence; ++row) {
    for (int64_t head = 0; head < attrs.heads; ++head) {
      if (attrs.kv_head_of[head] != kv_head) continue;
      const float* query = args.in[0].row<float>(row) + head * attrs.head_dim;
      const float scale = F::scale_of(query, attrs.head_dim, call.most_factor);
      for (int64_t d = 0; d < call.padded; d += Vec::kLanes) {
        F::encode(Vec::load(query + d, attrs.head_dim - d), scale,
                  all.query + all.count * call.padded + d);
      }
      all.scale[all.count] = attrs.scale * scale * kPerLn2;
      all.out[all.count] = args.out[0].row<float>(row) + head * attrs.head_dim;
      all.position[all.count++] = step.positions[row];
    }
  }
  return row;
}

template <typename F>
Keys<F> keys_of(const Call<F>& call, const Queries<F>& all, int64_t row, int64_t kv_head) {
  const StepView& step = *call.args.step;
  return {call, step.sequences[step.sequence_of_row[row]], kv_head, call.first_key(all.position[0]),
          all.position[all.count - 1]};
}

// Rows [begin, end) for one KV head: each run of rows of the same sequence in turn.
template <typename F>
void attend_rows(const Call<F>& call, Queries<F>& all, int64_t begin, int64_t end,
                 int64_t kv_head) {
  [[maybe_unused]] const typename F::Guard guard;
  while (begin < end) {
    const int64_t row = begin;
    begin = collect(call, all, row, end, kv_head);
    if (all.count == 0) continue;
    const Keys<F> keys = keys_of(call, all, row, kv_head);
    all.whole.clear(all.count, call.padded);
    for (int64_t part = keys.first / kPart; part <= keys.last / kPart; ++part) {
      attend_part(keys, all, part);
      merge(all.whole, all.part, all.count, call.padded);
    }
    finish(all.whole, all.out, all.count, call.args.attrs.head_dim, call.padded);
  }
}

// The parts of the keys of single rows, shared out where there are fewer (row, KV head) pairs than
// threads: some at a time, each into its own sums, which are then merged in order.
template <typename F>
struct SharedParts {
  const Call<F>& call;
  const AttentionScratch& sizes;
  std::byte* scratch;  // Behind the threads' own.

  struct Piece {
    int64_t row;
    int64_t kv_head;
    int64_t part;
  };
  int64_t first_part(int64_t row) const {
    return call.first_key(call.args.step->positions[row]) / kPart;
  }
  int64_t parts(int64_t row) const {
    return call.args.step->positions[row] / kPart + 1 - first_part(row);
  }
  int64_t pieces() const {
    int64_t count = 0;
    for (int64_t row = 0; row < call.args.step->rows; ++row) count += parts(row);
    return count * call.args.attrs.kv_heads;
  }
  Piece piece(int64_t index) const {
    int64_t row = 0;
    const int64_t kv_heads = call.args.attrs.kv_heads;
    for (; index >= parts(row) * kv_heads; ++row) index -= parts(row) * kv_heads;
    return {row, index / parts(row), first_part(row) + index % parts(row)};
  }
  Queries<F> queries(int thread) const {
    return lay_out<F>(call.args.scratch + thread * sizes.thread_bytes, sizes);
  }
  Softmax slot(int64_t index) const {
    return lay_out_sums(scratch + index * sizes.slot_bytes, sizes.heads, sizes.padded);
  }

  void attend(const Piece& piece, const Softmax& into, int thread) const {
    [[maybe_unused]] const typename F::Guard guard;
    Queries<F> all = queries(thread);
    all.part = into;
    collect(call, all, piece.row, piece.row + 1, piece.kv_head);
    if (all.count > 0) attend_part(keys_of(call, all, piece.row, piece.kv_head), all, piece.part);
  }
  void add(const Piece& piece, const Softmax& found) const {
    [[maybe_unused]] const typename F::Guard guard;
    Queries<F> all = queries(0);
    collect(call, all, piece.row, piece.row + 1, piece.kv_head);
    if (piece.part == first_part(piece.row)) all.whole.clear(all.count, call.padded);
    merge(all.whole, found, all.count, call.padded);
    if (piece.part + 1 < first_part(piece.row) + parts(piece.row)) return;
    finish(all.whole, all.out, all.count, call.args.attrs.head_dim, call.padded);
  }
  void run(Parallel& parallel) const {
    const int64_t count = pieces(), slots = parallel.threads() * kThreadSlots;
    for (int64_t begin = 0; begin < count; begin += slots) {
      const int64_t some = least(slots, count - begin);
      for_each(parallel, some, [&](int64_t index, int thread) {
        attend(piece(begin + index), slot(index), thread);
      });
      for (int64_t index = 0; index < some; ++index) add(piece(begin + index), slot(index));
    }
  }
};

template <typename F>
const char* attention(const KernelArgs& args) {
  const KernelAttrs& attrs = args.attrs;
  const int64_t rows = args.step->rows;
  if (rows <= 0 || attrs.kv_heads <= 0) return nullptr;
  const Call<F> call(args);
  Parallel& parallel = *args.parallel;
  for_rows(parallel, rows, args.in[1].cols, [&](int64_t row) { append_row(call, row); });

  int64_t group = 1;
  for (int64_t kv_head = 0; kv_head < attrs.kv_heads; ++kv_head) {
    int64_t size = 0;
    for (int64_t head = 0; head < attrs.heads; ++head) size += attrs.kv_head_of[head] == kv_head;
    group = most(group, size);
  }
  const AttentionScratch sizes = attention_scratch(attrs.heads, attrs.head_dim);
  const int threads = parallel.threads();
  const SharedParts<F> shared_parts = {call, sizes, args.scratch + threads * sizes.thread_bytes};
  if (threads > 1 && rows * attrs.kv_heads < 2 * threads &&
      shared_parts.pieces() > rows * attrs.kv_heads) {
    shared_parts.run(parallel);
    return nullptr;
  }
  // Large tasks read keys once for many rows; but every thread wants some.
  const int64_t shared = rows * attrs.kv_heads / (4 * threads);
  const int64_t rows_each = most(1, least(kTaskQueries / group, shared));
  const int64_t row_blocks = (rows + rows_each - 1) / rows_each;
  for_each(parallel, row_blocks * attrs.kv_heads, [&](int64_t task, int thread) {
    // Late rows see the most keys: they go first.
    const int64_t row = (row_blocks - 1 - task / attrs.kv_heads) * rows_each;
    Queries<F> all = lay_out<F>(args.scratch + thread * sizes.thread_bytes, sizes);
    attend_rows(call, all, row, least(rows, row + rows_each), task % attrs.kv_heads);
  });
  return nullptr;
}

}  // namespace

const char* attention_f32(const KernelArgs& args) { return attention<KvF32>(args); }
const char* attention_bf16(const KernelArgs& args) { return attention<KvBF16>(args); }
const char* attention_i8(const KernelArgs& args) { return attention<KvI8>(args); }

}  // namespace lockstep::LOCKSTEP_ISA
