// SPDX-License-Identifier: Apache-2.0
// The operands of one matrix product: a linear (linear_mma.cu), or the rows of one expert. Sums are
// stored unchanged. If they are in pairs, function(first sum) * second sum is stored for each pair.
#pragma once

#include "worker/kernels/cuda/functions.h"
#include "worker/kernels/cuda/linear/weight_words.h"

namespace lockstep::LOCKSTEP_TARGET {

struct Product {
  TensorView x;             // 16-bit numbers; columns 0, 8, 16 ... are at multiples of 16 bytes.
  const std::byte* weight;  // Stripes, one after the other.
  TensorView bias;
  TensorView out;
  const int32_t* to_row = nullptr;      // The row of `out` for each row of x; null: the same.
  Function function = Function::kNone;  // For pairs; kNone: sums are not in pairs.
  float factor = 0;

  constexpr bool in_pairs() const { return function != Function::kNone; }
  constexpr int64_t cols() const { return product_cols(function, out.cols); }
  __device__ int stripes() const { return static_cast<int>(device::stripes_of(cols())); }
  __device__ int units() const { return static_cast<int>(device::units_of(x.cols)); }
  __device__ int slices() const { return static_cast<int>(device::slices_of(x.cols)); }

  __device__ void store(int64_t row, int64_t col, float sum) const {
    if (row >= x.rows || col >= out.cols) return;
    float* to = out.row<float>(to_row == nullptr ? row : to_row[row]);
    to[col] = biased(col, sum);
  }
  // Stores column `col` of a row: the function of sum 2 * col (gate) times sum 2 * col + 1 (up).
  __device__ void store_pair(int64_t row, int64_t col, float gate, float up) const {
    if (row >= x.rows || col >= out.cols) return;
    const float found = function_of(function, factor, biased(2 * col, gate));
    set_element(out, row, col, found * biased(2 * col + 1, up));
  }

 private:
  __device__ float biased(int64_t col, float sum) const {
    return bias.data == nullptr ? sum : sum + bias.row<float>(0)[col];
  }
};

// Adds a step, 16 columns of K: sums[stripe][tile] += a[stripe] times eight rows of x. b[tile] has
// these rows for two steps, first the even step, then the odd one.
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
