// SPDX-License-Identifier: Apache-2.0
// A state that decays and grows, row by row: for each value head,
// S = decay * S + b * (a^T S) + k * v^T, where decay is one number or one for each row of S;
// out = q^T S, where S is the state after this row, or the one before it. Linear attention
// (Katharopoulos et al., 2020), its gated forms and RWKV-5, 6 and 7 (Peng et al., 2024 and 2025)
// are special cases. Sums over k_dim are in order.
#include "worker/kernels/cpu/recurrent/state_columns.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

// A head's part of a row.
struct HeadRow {
  const float *q, *k, *decay, *a, *b;  // a and b may be null.
  int64_t decay_stride;                // 0: one number.
  bool out_before;
};

// Processes one row: updates S and computes `out`.
template <int kVecs>
void step(const StateColumns<kVecs>& columns, const HeadRow& row, const float* values, float* out) {
  Vec value[kVecs], known[kVecs], sums[kVecs];
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) {
    value[v] = columns.load(values, v);
    known[v] = sums[v] = Vec::zero();
  }
  for (int64_t i = 0; row.a != nullptr && i < columns.rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      known[v] =
          fma(Vec::splat(row.a[i]), columns.load(columns.s + i * columns.stride, v), known[v]);
    }
  }
  for (int64_t i = 0; i < columns.rows; ++i) {
    float* s = columns.s + i * columns.stride;
    const Vec q = Vec::splat(row.q[i]), k = Vec::splat(row.k[i]);
    const Vec decay = Vec::splat(row.decay[i * row.decay_stride]);
    const Vec b = row.b == nullptr ? Vec::zero() : Vec::splat(row.b[i]);
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      const Vec old = columns.load(s, v);
      const Vec now = fma(k, value[v], fma(b, known[v], old * decay));
      columns.store(now, s, v);
      sums[v] = fma(q, row.out_before ? old : now, sums[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) columns.store(sums[v], out, v);
}

}  // namespace

const char* recurrence(const KernelArgs& args) {
  const RecurrenceAttrs& attrs = args.attrs.recurrence();
  const int64_t k_dim = attrs.k_dim;
  // The number of decay's columns for each head: 1 or k_dim.
  const int64_t decays = args.in[3].cols == attrs.heads ? 1 : k_dim;
  for_state_columns(
      args, [&](const auto& columns, const StepSequence& sequence, int64_t head, int64_t column) {
        const int64_t keys = attrs.key_head_of[head] * k_dim, values = head * attrs.v_dim + column;
        for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
          const auto part = [&](int input, int64_t begin) -> const float* {
            return args.in[input].data == nullptr ? nullptr : args.in[input].row<float>(r) + begin;
          };
          const HeadRow row = {.q = part(0, keys),
                               .k = part(1, keys),
                               .decay = part(3, head * decays),
                               .a = part(4, head * k_dim),
                               .b = part(5, head * k_dim),
                               .decay_stride = decays == 1 ? 0 : 1,
                               .out_before = attrs.out_before};
          step(columns, row, part(2, values), args.out[0].row<float>(r) + values);
        }
      });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA
