// SPDX-License-Identifier: Apache-2.0
// The gated delta rule (Yang et al., 2024), row by row: for each value head, with q and k of length
// 1 and q times scale, S = decay * S; S = S + k * (rate * (v - k^T S)); out = q^T S. The state
// block has S [k_dim][v_dim] of each head. Columns of S do not depend on each other, so a thread
// takes a few through all rows of a sequence, which keeps them in its cache; their sums over k_dim
// are in order.
#include "worker/kernels/cpu/vec.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kMaxVecs = 4;  // Of columns that are taken together.

// The row's head divided by its length and times `scale`.
void to_length(const float* from, int64_t n, float scale, float eps, float* to) {
  Vec squares = Vec::zero();
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    const Vec v = Vec::load(from + i, n - i);
    squares = fma(v, v, squares);
  }
  const Vec factor = Vec::splat(scale / __builtin_sqrtf(sum(squares) + eps));
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    (Vec::load(from + i, n - i) * factor).store(to + i, n - i);
  }
}

// Some columns of one head's S, `n` of kVecs vectors, `stride` floats from row to row.
template <int kVecs>
struct Columns {
  float* s;
  int64_t rows;
  int64_t stride;
  int64_t n;

  Vec load(const float* from, int v) const {
    const int64_t first = v * Vec::kLanes;
    return v + 1 < kVecs ? Vec::load(from + first) : Vec::load(from + first, n - first);
  }
  void store(Vec x, float* to, int v) const {
    const int64_t first = v * Vec::kLanes;
    v + 1 < kVecs ? x.store(to + first) : x.store(to + first, n - first);
  }

  // The row's step: S and `out` from its v.
  void step(const float* q, const float* k, const float* values, Vec decay, Vec rate,
            float* out) const {
    Vec known[kVecs], change[kVecs], sums[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) known[v] = sums[v] = Vec::zero();
    for (int64_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        known[v] = fma(Vec::splat(k[i]), load(s + i * stride, v), known[v]);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) change[v] = (load(values, v) - known[v] * decay) * rate;
    for (int64_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        const Vec row = fma(Vec::splat(k[i]), change[v], load(s + i * stride, v) * decay);
        store(row, s + i * stride, v);
        sums[v] = fma(Vec::splat(q[i]), row, sums[v]);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) store(sums[v], out, v);
  }
};

// Columns [column, column + n) of one head, through the rows of a sequence.
template <int kVecs>
void run(const KernelArgs& args, const StepSequence& sequence, int64_t head, int64_t column,
         int64_t n) {
  const OperatorAttrs& attrs = args.attrs;
  const int64_t k_dim = attrs.head_dim, v_dim = attrs.v_dim;
  const int64_t keys = attrs.kv_head_of[head] * k_dim, values = head * v_dim + column;
  const Columns<kVecs> columns = {args.state.block(sequence.slot) + head * k_dim * v_dim + column,
                                  k_dim, v_dim, n};
  for (int64_t i = 0; sequence.first_position == 0 && i < k_dim; ++i) {
    for (int v = 0; v < kVecs; ++v) columns.store(Vec::zero(), columns.s + i * v_dim, v);
  }
  float q[kMaxStateDim], k[kMaxStateDim];
  for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
    to_length(args.in[0].row<float>(r) + keys, k_dim, attrs.scale, attrs.eps, q);
    to_length(args.in[1].row<float>(r) + keys, k_dim, 1.0f, attrs.eps, k);
    columns.step(q, k, args.in[2].row<float>(r) + values,
                 Vec::splat(args.in[3].row<float>(r)[head]),
                 Vec::splat(args.in[4].row<float>(r)[head]), args.out[0].row<float>(r) + values);
  }
}

}  // namespace

const char* delta_rule(const KernelArgs& args) {
  const int64_t heads = args.attrs.heads, v_dim = args.attrs.v_dim;
  constexpr int64_t kColumns = kMaxVecs * Vec::kLanes;
  const int64_t pieces = (v_dim + kColumns - 1) / kColumns;
  for_each(*args.parallel, args.step->sequence_count * heads * pieces, [&](int64_t index) {
    const StepSequence& sequence = args.step->sequences[index / pieces / heads];
    const int64_t head = index / pieces % heads, column = index % pieces * kColumns;
    const int64_t n = min(kColumns, v_dim - column);
    const int64_t vecs = (n + Vec::kLanes - 1) / Vec::kLanes;
    if (vecs == 1) run<1>(args, sequence, head, column, n);
    if (vecs == 2) run<2>(args, sequence, head, column, n);
    if (vecs == 3) run<3>(args, sequence, head, column, n);
    if (vecs == 4) run<4>(args, sequence, head, column, n);
  });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA
