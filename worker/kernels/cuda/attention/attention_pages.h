// SPDX-License-Identifier: Apache-2.0
// The places of keys and values for attention's kernels. A page holds, for every KV head, keys
// [page_tokens][head_dim], then values [page_tokens][v_dim] unless the values are in the keys. If
// these are codes, the page then holds, for every KV head, the scales of the keys and those of the
// values: float32 numbers that bfloat16 can represent. A code times its scale, rounded to bfloat16,
// is the number that kernels multiply.
#pragma once

#include "worker/kernels/cuda/functions.h"

namespace lockstep::LOCKSTEP_TARGET {

// An element of int8 pages.
struct Code {
  int8_t value;
};
template <typename T>
inline constexpr bool kIsCode = std::is_same_v<T, Code>;

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

// The scales of a KV head's keys (`side` 0) or values (1) in a page of int8.
__device__ inline float* scales_in(const AttentionParams& params, int64_t page, int64_t kv_head,
                                   int side) {
  const AttentionAttrs& attrs = params.attrs;
  const int64_t tokens = params.state.page_tokens, sides = attrs.values_in_keys ? 1 : 2;
  const int64_t width = attrs.head_dim + (attrs.values_in_keys ? 0 : attrs.v_dim);
  std::byte* of_page = params.state.data + page * params.state.page_bytes;
  return reinterpret_cast<float*>(of_page + attrs.kv_heads * width * tokens) +
         (kv_head * sides + side) * tokens;
}
// The scales in a position's page, where the values use the keys' scales if they are in the keys.
// Null if T has no scales.
template <typename T>
__device__ float* scales_of(const AttentionParams& params, const StepSequence& sequence,
                            int64_t position, int64_t kv_head, int side) {
  if constexpr (kIsCode<T>) {
    const int64_t page = sequence.pages[position / params.state.page_tokens];
    return scales_in(params, page, kv_head, params.attrs.values_in_keys ? 0 : side);
  } else {
    return nullptr;
  }
}

// An element of a key or value; `scale` is ignored unless it is a code.
template <typename T>
__device__ float number_of(T element, const float*) {
  return widen(element);
}
__device__ inline float number_of(Code code, const float* scale) {
  BF16 rounded;
  narrow(static_cast<float>(code.value) * *scale, rounded);
  return widen(rounded);
}

// The scale of numbers with this largest magnitude, given by its bits: 0 if they are (nearly) 0,
// and NaN if one of them is not finite.
__device__ inline float scale_for(uint32_t largest_bits) {
  if (largest_bits >= 0x7f800000) return __builtin_nanf("");
  BF16 rounded;
  narrow(std::bit_cast<float>(largest_bits) / 127.0f, rounded);
  const float scale = widen(rounded);
  return scale < 0x1p-126f ? 0.0f : scale;
}
// The nearest code, the even one of two. The sum's low bits are the code.
__device__ inline Code code_of(float x, float scale) {
  constexpr float kRound = 12582912.0f;
  if (!(scale > 0)) return {0};
  return {static_cast<int8_t>(std::bit_cast<uint32_t>(x / scale + kRound))};
}

// A score, from the product of a query and a key: scaled and capped; then with the head's slope.
__device__ inline float capped_score(const AttentionAttrs& attrs, float product) {
  const float scaled = product * attrs.scale;
  return attrs.cap == 0 ? scaled : attrs.cap * tanh_of(scaled / attrs.cap);
}
__device__ inline float score_of(const AttentionAttrs& attrs, int64_t head, int64_t distance,
                                 float product) {
  const float score = capped_score(attrs, product);
  if (attrs.slopes.empty()) return score;
  return fmaf(attrs.slopes[head], static_cast<float>(distance), score);
}

}  // namespace lockstep::LOCKSTEP_TARGET
