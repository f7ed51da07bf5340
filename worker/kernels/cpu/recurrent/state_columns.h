// SPDX-License-Identifier: Apache-2.0
// Matrices of state blocks, S [k_dim][v_dim] for each head. Columns of S do not depend on each
// other, so a thread processes a few columns through all rows of a sequence, and they stay in its
// cache.
#pragma once

#include "worker/kernels/cpu/vector/vec.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {

// Columns of one head's S: `n` of them in kVecs vectors, `stride` floats from row to row.
template <int kVecs>
struct StateColumns {
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
  void clear() const {
    for (int64_t i = 0; i < rows; ++i) {
      for (int v = 0; v < kVecs; ++v) store(Vec::zero(), s + i * stride, v);
    }
  }
};

// Calls body(columns, sequence, head, first column of the head) for all columns of all heads of
// every sequence, in pieces of up to four vectors; the columns of a new sequence are cleared first.
template <typename Body>
void for_state_columns(const KernelArgs& args, const Body& body) {
  constexpr int64_t kColumns = 4 * Vec::kLanes;
  const RecurrenceAttrs& attrs = args.attrs.recurrence();
  const int64_t heads = attrs.heads, k_dim = attrs.k_dim, v_dim = attrs.v_dim;
  const int64_t pieces = (v_dim + kColumns - 1) / kColumns;
  for_each(*args.parallel, args.step->sequence_count * heads * pieces, [&](int64_t index) {
    const StepSequence& sequence = args.step->sequences[index / pieces / heads];
    const int64_t head = index / pieces % heads, column = index % pieces * kColumns;
    const int64_t n = min(kColumns, v_dim - column);
    const auto run = [&]<int kVecs>() {
      float* s = args.state.block(sequence.slot) + head * k_dim * v_dim + column;
      const StateColumns<kVecs> columns = {s, k_dim, v_dim, n};
      if (sequence.first_position == 0) columns.clear();
      body(columns, sequence, head, column);
    };
    const int64_t vecs = (n + Vec::kLanes - 1) / Vec::kLanes;
    if (vecs == 1) run.template operator()<1>();
    if (vecs == 2) run.template operator()<2>();
    if (vecs == 3) run.template operator()<3>();
    if (vecs == 4) run.template operator()<4>();
  });
}

}  // namespace lockstep::LOCKSTEP_ISA
