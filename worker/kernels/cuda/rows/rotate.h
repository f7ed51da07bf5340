// SPDX-License-Identifier: Apache-2.0
// Rotates a head of q or k: for rope alone and as a part of attention.
#pragma once

#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {

// Writes all columns of a head, rounded if T is bfloat16; `cos_sin` is a row of the table. `to` may
// be `from`: each thread of a block has some columns, and reads them before it writes them.
template <typename T>
__device__ void rotate_head(const float* from, const float* cos_sin, const RopeAttrs& attrs,
                            T* to) {
  const int64_t half = attrs.rotary_dim / 2;
  for (int64_t i = threadIdx.x; i < half; i += blockDim.x) {
    const int64_t first = attrs.offset + (attrs.interleaved ? 2 * i : i);
    const int64_t second = attrs.offset + (attrs.interleaved ? 2 * i + 1 : i + half);
    const float a = from[first], b = from[second];
    const float cos = cos_sin[i], sin = cos_sin[half + i];
    narrow(a * cos - b * sin, to[first]);
    narrow(b * cos + a * sin, to[second]);
  }
  const int64_t rotated = attrs.offset + attrs.rotary_dim;
  for (int64_t i = threadIdx.x; i < attrs.offset; i += blockDim.x) narrow(from[i], to[i]);
  for (int64_t i = rotated + threadIdx.x; i < attrs.head_dim; i += blockDim.x) {
    narrow(from[i], to[i]);
  }
}

}  // namespace lockstep::LOCKSTEP_TARGET
