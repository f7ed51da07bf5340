// SPDX-License-Identifier: Apache-2.0
// The copy of x that wgmma reads. A step of linear_mma.cu takes four of every eight neighbouring
// columns (fragments.h). wgmma takes 16 neighbours from rows of shared memory. So the copy has the
// columns in the order of the steps: the four neighbouring words (of two numbers) that
// linear_mma.cu gives to one lane move to places four words apart.
#pragma once

#include "worker/kernels/cuda/linear/fragments.h"
#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {

template <typename T>
struct alignas(16) Piece {
  T at[8];
};

// Word 4m + t of every 16 words is word 4t + m of x. A thread writes the four words of one m.
// Columns that x lacks are zeros. source(row) is the row of `from` for a row of `to`; a row with a
// negative one is not written.
template <typename From, typename To, typename Source>
__global__ void order_kernel(TensorView from, TensorView to, Source source) {
  constexpr int64_t kStepsDepth = 32;  // The columns of two steps.
  const int64_t row = blockIdx.x, step = int64_t{gridDim.y} * blockDim.x;
  const int64_t from_row = source(row);
  if (from_row < 0) return;
  const From* const x = from.row<From>(from_row);
  auto* const pieces = reinterpret_cast<Piece<To>*>(to.row<To>(row));
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < to.cols / 8; i += step) {
    const int64_t first = i / 4 * kStepsDepth + i % 4 * 2;
    Piece<To> numbers;
#pragma unroll
    for (int at = 0; at < 8; ++at) {
      const int64_t col = first + at / 2 * 8 + at % 2;
      narrow(col < from.cols ? widen(x[col]) : 0.0f, numbers.at[at]);
    }
    pieces[i] = numbers;
  }
}

// Queues the copy of x to `rows` rows at `to`, which *ordered then describes.
template <typename T, typename Source>
const char* order_x(const TensorView& x, std::byte* to, int64_t rows, Source source, void* queue,
                    TensorView* ordered) {
  const int64_t cols = device::units_of(x.cols) * device::kUnitDepth;
  *ordered = {to, rows, cols, cols, DType::kNone};
  const auto kernel =
      x.dtype == DType::kF32 ? order_kernel<float, T, Source> : order_kernel<T, T, Source>;
  return launch(kernel, row_grid(rows, cols / 8), kRowThreads, queue, x, *ordered, source);
}

}  // namespace lockstep::LOCKSTEP_TARGET
