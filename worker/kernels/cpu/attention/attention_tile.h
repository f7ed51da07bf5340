// SPDX-License-Identifier: Apache-2.0
// Attention's two products, for a tile of queries of one KV head over one block of keys: QK scores
// and the PV product. Each query's sums add its keys in order, whatever other queries are in the
// tile.
#pragma once

#include "worker/kernels/cpu/pages/kv_format.h"

namespace lockstep::LOCKSTEP_ISA {

// The number of vectors of sums for each query of a tile, so that all of them fit the registers.
constexpr int tile_vectors(int queries) {
  const int max = kTileSums / queries;
  return max >= 4 ? 4 : max >= 2 ? 2 : 1;
}

// Prefetches into the second-level cache, one block ahead: keys during QK, values during PV.
[[gnu::always_inline]] inline void fetch(const void* line) { __builtin_prefetch(line, 0, 2); }

// Fills scores[q][kKeyBlock] for the keys of kVecs chunks, from `chunk` on: the dot product of
// query and key, times the query's scale and, if F::kScaled, the key's scale. Queries are
// [kQueries][padded].
template <typename F, int kQueries, int kVecs>
void score(const typename F::Factor* queries, int64_t padded, const KeyBlock<F>& block,
           const KeyBlock<F>& ahead, int64_t chunk, const float* scale, float* scores) {
  const typename F::Element *keys[kVecs], *next[kVecs];
  typename F::Sum sums[kQueries][kVecs];
#pragma GCC unroll 4
  for (int i = 0; i < kVecs; ++i) {
    keys[i] = block.keys[chunk + i];
    next[i] = ahead.keys[chunk + i];
    if constexpr (F::kScaled) {
      fetch(scales_of(next[i], padded));
      fetch(scales_of(ahead.values[chunk + i], ahead.v_stride));
    }
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) sums[q][i] = F::zero();
  }
  for (int64_t d = 0; d < padded; d += F::kPack) {
    typename F::Operand key[kVecs];
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {
      key[i] = F::load(keys[i] + d * kChunk);
      fetch(next[i] + d * kChunk);
    }
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) {
      const typename F::Operand query = F::splat(queries + q * padded + d);
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) sums[q][i] = F::dot(query, key[i], sums[q][i]);
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {
      Vec found;
      if constexpr (F::kScaled) {
        found = to_float(sums[q][i]) * Vec::load(scales_of(keys[i], padded));
      } else {
        found = sums[q][i];
      }
      (found * Vec::splat(scale[q])).store(scores + q * kKeyBlock + i * kChunk);
    }
  }
}

// For kVecs vectors of columns, from `column` on: accumulator[q] += weight[q][j] * value[j] for
// each key j in [begin, end), in order. The range consists of whole packs. kScaled: the sum is an
// integer, multiplied by fit[q]; if fit[q] is 0, nothing is added.
template <typename F, int kQueries, int kVecs>
void add_pv_columns(float* accumulator, int64_t padded, const typename F::Factor* weights,
                    const float* fit, const KeyBlock<F>& block, const KeyBlock<F>& ahead,
                    int64_t column, int64_t begin, int64_t end) {
  typename F::Sum sums[kQueries][kVecs];
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {
      if constexpr (F::kScaled) {
        sums[q][i] = F::zero();
      } else {
        sums[q][i] = Vec::load(accumulator + q * padded + column + i * Vec::kLanes);
      }
    }
  }
  for (int64_t j = begin; j < end;) {
    const int64_t chunk = j / kChunk, chunk_end = (chunk + 1) * kChunk;
    const int64_t at = value_at<F>(j % kChunk, column, block.v_stride);
    const typename F::Element* from = block.values[chunk] + at;
    const typename F::Element* next = ahead.values[chunk] + at;
    for (; j < end && j < chunk_end; j += F::kPack) {
      typename F::Operand value[kVecs];
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) {
        value[i] = F::load(from + i * Vec::kLanes * F::kPack);
        fetch(next + i * Vec::kLanes * F::kPack);
      }
#pragma GCC unroll 8
      for (int q = 0; q < kQueries; ++q) {
        const typename F::Operand weight = F::splat(weights + q * kKeyBlock + j);
#pragma GCC unroll 4
        for (int i = 0; i < kVecs; ++i) sums[q][i] = F::dot(weight, value[i], sums[q][i]);
      }
      from += block.v_stride * F::kPack;
      next += block.v_stride * F::kPack;
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
    if (F::kScaled && fit[q] == 0) continue;
#pragma GCC unroll 4
    for (int i = 0; i < kVecs; ++i) {
      float* to = accumulator + q * padded + column + i * Vec::kLanes;
      if constexpr (F::kScaled) {
        fma(to_float(sums[q][i]), Vec::splat(fit[q]), Vec::load(to)).store(to);
      } else {
        sums[q][i].store(to);
      }
    }
  }
}

template <typename F, int kQueries>
void add_pv(float* accumulator, int64_t padded, const typename F::Factor* weights, const float* fit,
            const KeyBlock<F>& block, const KeyBlock<F>& ahead, int64_t begin, int64_t end) {
  constexpr int kVecs = tile_vectors(kQueries);
  int64_t column = 0;
  for (; column + kVecs * Vec::kLanes <= padded; column += kVecs * Vec::kLanes) {
    add_pv_columns<F, kQueries, kVecs>(accumulator, padded, weights, fit, block, ahead, column,
                                       begin, end);
  }
  for (; column < padded; column += Vec::kLanes) {
    add_pv_columns<F, kQueries, 1>(accumulator, padded, weights, fit, block, ahead, column, begin,
                                   end);
  }
}

}  // namespace lockstep::LOCKSTEP_ISA
