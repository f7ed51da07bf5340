// SPDX-License-Identifier: Apache-2.0
// The gated delta rule, row by row: for each value head, with q and k scaled to length 1 and q then
// multiplied by `scale`: S = decay * S; S = S + k * (rate * (v - k^T S)); out = q^T S. The state
// block has S [k_dim][v_dim] of each head. There is one block per sequence and head. A thread
// processes one column of S through all rows; sums over k_dim are in order.
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

struct DeltaParams {
  TensorView q, k, v, decay, rate, out;
  RecurrenceAttrs attrs;
  StateView state;
  StepView step;
};

// Writes the head divided by its length and times `scale`; all threads of the block call it.
__device__ void to_length(const float* from, int64_t n, float scale, float eps, float* to) {
  float squares = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) squares = fmaf(from[i], from[i], squares);
  const float factor = scale / sqrtf(over_block<Sum>(squares) + eps);
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i] * factor;
}

__global__ void delta_rule_kernel(DeltaParams params) {
  __shared__ float q[kMaxStateDim], k[kMaxStateDim];
  const StepSequence& sequence = params.step.sequences[blockIdx.x];
  const int64_t head = blockIdx.y, k_dim = params.attrs.k_dim, v_dim = params.attrs.v_dim;
  const int64_t keys = params.attrs.key_head_of[head] * k_dim;
  float* matrix = params.state.block(sequence.slot) + head * k_dim * v_dim;
  if (sequence.first_position == 0) {
    for (int64_t i = threadIdx.x; i < k_dim * v_dim; i += blockDim.x) matrix[i] = 0.0f;
  }
  for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
    __syncthreads();  // No thread reads the last row's q and k any more, and the matrix is cleared.
    to_length(params.q.row<float>(r) + keys, k_dim, params.attrs.scale, params.attrs.eps, q);
    to_length(params.k.row<float>(r) + keys, k_dim, 1.0f, params.attrs.eps, k);
    __syncthreads();
    const float decay = params.decay.row<float>(r)[head], rate = params.rate.row<float>(r)[head];
    for (int64_t c = threadIdx.x; c < v_dim; c += blockDim.x) {
      float *s = matrix + c, known = 0, sum = 0;
      for (int64_t i = 0; i < k_dim; ++i) known = fmaf(k[i], s[i * v_dim], known);
      const float change = (params.v.row<float>(r)[head * v_dim + c] - known * decay) * rate;
      for (int64_t i = 0; i < k_dim; ++i) {
        s[i * v_dim] = fmaf(k[i], change, s[i * v_dim] * decay);
        sum = fmaf(q[i], s[i * v_dim], sum);
      }
      params.out.row<float>(r)[head * v_dim + c] = sum;
    }
  }
}

}  // namespace

const char* delta_rule(const KernelArgs& args) {
  const DeltaParams params = {args.in[0],
                              args.in[1],
                              args.in[2],
                              args.in[3],
                              args.in[4],
                              args.out[0],
                              args.attrs.recurrence(),
                              args.state,
                              *args.step};
  const RecurrenceAttrs& attrs = args.attrs.recurrence();
  const int64_t threads = attrs.v_dim <= 64 ? 64 : 128;
  return launch(delta_rule_kernel, {args.step->sequence_count, attrs.heads},
                static_cast<int>(threads), args.queue, params);
}

}  // namespace lockstep::LOCKSTEP_TARGET
