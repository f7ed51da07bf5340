// SPDX-License-Identifier: Apache-2.0
// The gated delta rule (Yang et al., 2024), row by row: for each value head, with q and k scaled to
// length 1 and q then multiplied by `scale`: S = decay * S; S = S + k * (rate * (v - k^T S)); out =
// q^T S. Sums over k_dim are in order.
#include "worker/kernels/cpu/recurrent/state_columns.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

// Writes the row's head divided by its length and times `scale`.
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

// Processes one row: updates S and computes `out`.
template <int kVecs>
void step(const StateColumns<kVecs>& columns, const float* q, const float* k, const float* values,
          Vec decay, Vec rate, float* out) {
  Vec known[kVecs], change[kVecs], sums[kVecs];
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) known[v] = sums[v] = Vec::zero();
  for (int64_t i = 0; i < columns.rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      known[v] = fma(Vec::splat(k[i]), columns.load(columns.s + i * columns.stride, v), known[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) {
    change[v] = (columns.load(values, v) - known[v] * decay) * rate;
  }
  for (int64_t i = 0; i < columns.rows; ++i) {
    float* s = columns.s + i * columns.stride;
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      const Vec row = fma(Vec::splat(k[i]), change[v], columns.load(s, v) * decay);
      columns.store(row, s, v);
      sums[v] = fma(Vec::splat(q[i]), row, sums[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) columns.store(sums[v], out, v);
}

}  // namespace

const char* delta_rule(const KernelArgs& args) {
  const RecurrenceAttrs& attrs = args.attrs.recurrence();
  for_state_columns(
      args, [&](const auto& columns, const StepSequence& sequence, int64_t head, int64_t column) {
        const int64_t keys = attrs.key_head_of[head] * attrs.k_dim;
        const int64_t values = head * attrs.v_dim + column;
        float q[kMaxStateDim], k[kMaxStateDim];
        for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
          to_length(args.in[0].row<float>(r) + keys, attrs.k_dim, attrs.scale, attrs.eps, q);
          to_length(args.in[1].row<float>(r) + keys, attrs.k_dim, 1.0f, attrs.eps, k);
          step(columns, q, k, args.in[2].row<float>(r) + values,
               Vec::splat(args.in[3].row<float>(r)[head]),
               Vec::splat(args.in[4].row<float>(r)[head]), args.out[0].row<float>(r) + values);
        }
      });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA
