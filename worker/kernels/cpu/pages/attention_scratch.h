// SPDX-License-Identifier: Apache-2.0
// The layout of attention's scratch and KV pages, which its kernels and sizes.cc share. Internal
// linkage, since files of every ISA include it.
#pragma once

#include "worker/kernels/cpu/scratch.h"
#include "worker/kernels/kernel.h"

namespace lockstep {
namespace {

// Keys are processed in blocks of this many absolute positions, independent of page, chunk and
// batch.
constexpr int64_t kKeyBlock = 128;
// A query is one head of one row; a task is some queries of one KV head: at most kTaskQueries, or
// all queries of one row if that row has more. A thread's scratch has, for each query of a task: a
// copy of the query, its sums over the current part of the keys, its sums over all parts before,
// and five numbers. The scratch also has the scores and weights of one block for a tile of queries
// and, if values are in keys, the values of one block.
constexpr int64_t kTaskQueries = 64;
constexpr int64_t kMaxTileQueries = 8;

[[maybe_unused, gnu::always_inline]] inline int64_t padded_dim(int64_t head_dim) {
  return (head_dim + 15) / 16 * 16;
}
// The bytes of one KV head's keys or values at 16 positions, including the scales if they are int8.
constexpr int64_t kKvChunk = 16;
[[maybe_unused, gnu::always_inline]] inline int64_t kv_part_bytes(int64_t dim, DType dtype) {
  const int64_t scales = dtype == DType::kI8 ? kKvChunk * 4 : 0;
  return kKvChunk * padded_dim(dim) * dtype_bytes(dtype) + scales;
}
// The bytes of keys and values; if v_dim is 0 the values are in the keys.
[[maybe_unused]] int64_t kv_chunk_bytes(int64_t k_dim, int64_t v_dim, DType dtype) {
  return kv_part_bytes(k_dim, dtype) + (v_dim == 0 ? 0 : kv_part_bytes(v_dim, dtype));
}

// The number of elements from one slot's values to the next slot's, for values in packs. Values
// that are extracted from keys are one vector further apart: otherwise the 512 columns of published
// models would share cache sets.
[[maybe_unused, gnu::always_inline]] inline int64_t value_stride(const AttentionAttrs& attrs) {
  return padded_dim(attrs.v_dim) + (attrs.values_in_keys ? 16 : 0);
}

// If there are few rows, this many parts of keys per thread are processed at a time.
constexpr int64_t kThreadPartials = 4;

struct AttentionScratch {
  int64_t heads;
  int64_t queries;
  int64_t k_padded;
  int64_t v_padded;
  int64_t values_bytes;   // A block's, if values are in keys.
  int64_t sums_bytes;     // Sums of `queries`.
  int64_t partial_bytes;  // Sums of `heads`.
  int64_t thread_bytes;   // One thread's scratch.
};
[[maybe_unused]] AttentionScratch attention_scratch(const AttentionAttrs& attrs) {
  constexpr int64_t kFloat = sizeof(float);
  const int64_t heads = attrs.heads;
  const int64_t queries = heads > kTaskQueries ? heads : kTaskQueries;
  const int64_t k_padded = padded_dim(attrs.head_dim), v_padded = padded_dim(attrs.v_dim);
  const int64_t values = attrs.values_in_keys ? kKeyBlock * (value_stride(attrs) + 1) * kFloat : 0;
  const int64_t sums = align_scratch(queries * (v_padded + 2) * kFloat);
  const int64_t copies = align_scratch(queries * k_padded * kFloat);
  const int64_t numbers = 3 * align_scratch(queries * kFloat) +
                          2 * align_scratch(queries * static_cast<int64_t>(sizeof(int64_t)));
  const int64_t tile = 2 * align_scratch(kMaxTileQueries * kKeyBlock * kFloat) +
                       align_scratch(kMaxTileQueries * kFloat);
  return {heads,
          queries,
          k_padded,
          v_padded,
          values,
          sums,
          align_scratch(heads * (v_padded + 2) * kFloat),
          copies + 2 * sums + numbers + tile + values};
}

}  // namespace
}  // namespace lockstep
