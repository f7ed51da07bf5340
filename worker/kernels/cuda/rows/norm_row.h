// SPDX-License-Identifier: Apache-2.0
// The norm of a row, or of a head's columns of a row, by a block of threads: for all kernels that
// compute norms.
#pragma once

#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {

// The bits depend on the number of threads that add, so that number depends on the width alone.
constexpr int norm_threads(int64_t width) { return width <= 256 ? kWarp : 256; }

// Sets columns [begin, begin + width) of a row of `out` to from / sqrt(mean of from^2 + eps) *
// factor; `factor` may be null. All threads of the block call this function. There must be at least
// norm_threads(width) threads; threads beyond these add nothing.
__device__ inline void norm_row(const float* from, const float* factor, int64_t width, float eps,
                                const TensorView& out, int64_t row, int64_t begin) {
  const int64_t threads = norm_threads(width);
  float squares = 0;
  if (threadIdx.x < threads) {
    for (int64_t i = threadIdx.x; i < width; i += threads) {
      squares = fmaf(from[i], from[i], squares);
    }
  }
  const float mean = over_block<Sum>(squares) / static_cast<float>(width);
  const float scale = 1.0f / sqrtf(mean + eps);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    set_element(out, row, begin + i, from[i] * scale * (factor == nullptr ? 1.0f : factor[i]));
  }
}

}  // namespace lockstep::LOCKSTEP_TARGET
