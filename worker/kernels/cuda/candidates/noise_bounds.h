// SPDX-License-Identifier: Apache-2.0
// Bounds of the noise of a token, without logarithms in double: few tokens need the noise itself.
#pragma once

#include <cmath>

#include "worker/kernels/cuda/target.h"

namespace lockstep::LOCKSTEP_TARGET {

struct NoiseBounds {
  float low = 0;
  float high = 0;
};

// -log(x), with an error below 1e-5.
__device__ inline float negative_log(float x) {
#ifdef __CUDACC__
  return -__logf(x);
#else
  return -std::log(x);
#endif
}

// low <= gumbel_noise() <= high for the token with these gumbel_bits(). The noise is -log(-log(u)),
// and `bits` are the highest bits of u. If u is close to 0 or 1, these bits say too little about
// it, so the bounds are those of all such u. For u above 0.9, -log(u) is computed by its series in
// 1 - u.
__device__ inline NoiseBounds noise_bounds(uint32_t bits) {
  constexpr uint32_t kFew = 512;
  constexpr float kError = 0.003f;
  if (bits < kFew) return {-3.7f, -2.7f};
  if (~bits < kFew) return {15.9f, 36.8f};
  const float u = (static_cast<float>(bits) + 0.5f) * 0x1p-32f;
  const float v = (static_cast<float>(~bits) + 0.5f) * 0x1p-32f;
  const float series = v * (1 + v * (0.5f + v * (0x1.555556p-2f + v * 0.25f)));
  const float noise = negative_log(v < 0.1f ? series : negative_log(u));
  return {noise - kError, noise + kError};
}

}  // namespace lockstep::LOCKSTEP_TARGET
