// SPDX-License-Identifier: Apache-2.0
// One product of linear_mma.cu, or of an expert's rows, as its kernels get it, and how they read x
// and write what they sum.
#pragma once

#include "worker/kernels/cuda/weight_words.h"

namespace lockstep::LOCKSTEP_TARGET {

struct Product {
  TensorView x;             // Of 16-bit numbers, eight at multiples of 16 bytes.
  const std::byte* weight;  // Stripes, one behind the other.
  TensorView bias;
  TensorView out;
  const int32_t* to_row = nullptr;  // Which row of `out` is for a row of x; null: the same.

  __device__ int stripes() const { return static_cast<int>(device::stripes_of(out.cols)); }
  __device__ int units() const { return static_cast<int>(device::units_of(x.cols)); }
  __device__ int slices() const { return static_cast<int>(device::slices_of(x.cols)); }

  __device__ void store(int64_t row, int64_t col, float sum) const {
    if (row >= x.rows || col >= out.cols) return;
    float* to = out.row<float>(to_row == nullptr ? row : to_row[row]);
    to[col] = bias.data == nullptr ? sum : sum + bias.row<float>(0)[col];
  }
};

// sums[stripe][tile] += a stripe's step times eight rows of x; b[tile] has the two steps of a half
// unit.
template <typename T, int kStripes, int kTiles>
__device__ void add_step(float (&sums)[kStripes][kTiles][4], const uint32_t (&a)[kStripes][4],
                         const Words4 (&b)[kTiles], int step) {
#pragma unroll
  for (int stripe = 0; stripe < kStripes; ++stripe) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint32_t(&words)[4] = b[tile].at;
      multiply_add<T>(sums[stripe][tile], a[stripe], words[step % 2 * 2], words[step % 2 * 2 + 1]);
    }
  }
}

}  // namespace lockstep::LOCKSTEP_TARGET
