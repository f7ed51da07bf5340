// SPDX-License-Identifier: Apache-2.0
// The places of keys and values for attention's kernels. A page holds, for every KV head, keys
// [page_tokens][head_dim], then values [page_tokens][v_dim] unless the values are in the keys.
#pragma once

#include "worker/kernels/cuda/functions.h"

namespace lockstep::LOCKSTEP_TARGET {

struct AttentionParams {
  TensorView q, k, v, sinks, out;
  AttentionAttrs attrs;
  StateView state;
  StepView step;
};

inline AttentionParams attention_params(const KernelArgs& args) {
  return {args.in[0], args.in[1], args.in[2], args.in[3], args.out[0], args.attrs.attention(),
          args.state, *args.step};
}

// The keys of a KV head in a position's page.
template <typename T>
__device__ T* keys_of(const AttentionParams& params, const StepSequence& sequence, int64_t position,
                      int64_t kv_head) {
  const int64_t page = sequence.pages[position / params.state.page_tokens];
  const int64_t own_values = params.attrs.values_in_keys ? 0 : params.attrs.v_dim;
  return reinterpret_cast<T*>(params.state.data + page * params.state.page_bytes) +
         kv_head * (params.attrs.head_dim + own_values) * params.state.page_tokens;
}

// The values of a KV head in a position's page; value_stride() is the number of elements from one
// position's values to the next position's.
template <typename T>
__device__ T* values_of(const AttentionParams& params, const StepSequence& sequence,
                        int64_t position, int64_t kv_head) {
  T* keys = keys_of<T>(params, sequence, position, kv_head);
  if (params.attrs.values_in_keys) return keys;
  return keys + params.attrs.head_dim * params.state.page_tokens;
}
__device__ inline int64_t value_stride(const AttentionParams& params) {
  return params.attrs.values_in_keys ? params.attrs.head_dim : params.attrs.v_dim;
}

// A score, from the product of a query and a key.
__device__ inline float score_of(const AttentionAttrs& attrs, int64_t head, int64_t distance,
                                 float product) {
  const float scaled = product * attrs.scale;
  const float score = attrs.cap == 0 ? scaled : attrs.cap * tanh_of(scaled / attrs.cap);
  if (attrs.slopes.empty()) return score;
  return fmaf(attrs.slopes[head], static_cast<float>(distance), score);
}

}  // namespace lockstep::LOCKSTEP_TARGET
