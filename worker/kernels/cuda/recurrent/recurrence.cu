// SPDX-License-Identifier: Apache-2.0
// A state that decays and grows, row by row, computed as in cpu/recurrent/recurrence.cc and with
// its bits: for each value head, S = decay * S + b * (a^T S) + k * v^T; out = q^T S, where S is the
// state after this row, or the one before it. There is one block per sequence and head. A thread
// processes one column of S through all rows.
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

struct RecurrenceParams {
  TensorView q, k, v, decay, a, b, out;
  RecurrenceAttrs attrs;
  StateView state;
  StepView step;
};

__global__ void recurrence_kernel(RecurrenceParams p) {
  const StepSequence& sequence = p.step.sequences[blockIdx.x];
  const int64_t head = blockIdx.y, k_dim = p.attrs.k_dim, v_dim = p.attrs.v_dim;
  const int64_t keys = p.attrs.key_head_of[head] * k_dim;
  const int64_t decays = p.decay.cols == p.attrs.heads ? 1 : k_dim;
  for (int64_t c = threadIdx.x; c < v_dim; c += blockDim.x) {
    float* s = p.state.block(sequence.slot) + head * k_dim * v_dim + c;
    for (int64_t i = 0; sequence.first_position == 0 && i < k_dim; ++i) s[i * v_dim] = 0.0f;
    for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
      const float *q = p.q.row<float>(r) + keys, *k = p.k.row<float>(r) + keys;
      const float* decay = p.decay.row<float>(r) + head * decays;
      const bool changes = p.a.data != nullptr;
      const float* a = changes ? p.a.row<float>(r) + head * k_dim : nullptr;
      const float* b = changes ? p.b.row<float>(r) + head * k_dim : nullptr;
      const float value = p.v.row<float>(r)[head * v_dim + c];
      float known = 0, sum = 0;
      for (int64_t i = 0; changes && i < k_dim; ++i) known = fmaf(a[i], s[i * v_dim], known);
      for (int64_t i = 0; i < k_dim; ++i) {
        const float old = s[i * v_dim], kept = old * decay[decays == 1 ? 0 : i];
        const float now = fmaf(k[i], value, fmaf(changes ? b[i] : 0.0f, known, kept));
        s[i * v_dim] = now;
        sum = fmaf(q[i], p.attrs.out_before ? old : now, sum);
      }
      p.out.row<float>(r)[head * v_dim + c] = sum;
    }
  }
}

}  // namespace

const char* recurrence(const KernelArgs& args) {
  if (args.attrs.recurrence().heads <= 0) return nullptr;
  const RecurrenceParams params = {args.in[0], args.in[1], args.in[2],  args.in[3],
                                   args.in[4], args.in[5], args.out[0], args.attrs.recurrence(),
                                   args.state, *args.step};
  const RecurrenceAttrs& attrs = args.attrs.recurrence();
  const int64_t threads = attrs.v_dim <= 64 ? 64 : 128;
  return launch(recurrence_kernel, {args.step->sequence_count, attrs.heads},
                static_cast<int>(threads), args.queue, params);
}

}  // namespace lockstep::LOCKSTEP_TARGET
