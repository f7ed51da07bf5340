// SPDX-License-Identifier: Apache-2.0
// The probabilities of a block of attention_wgmma.cu, and exp_of() for numbers that are not
// positive, with fewer instructions.
#pragma once

#include "worker/kernels/cuda/hopper/attention_units.h"

namespace lockstep::LOCKSTEP_TARGET {

// The larger number; NaN if either is NaN.
__device__ inline float larger_or_nan(float a, float b) {
#ifdef __CUDACC__
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
#else
  return a != a || b != b ? __builtin_nanf("") : a > b ? a : b;
#endif
}

// A product that would be subnormal is 0.
__device__ inline float multiply_to_zero(float a, float b) {
#ifdef __CUDACC__
  float product;
  asm("mul.ftz.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
  return product;
#else
  const float product = a * b;
  return __builtin_fabsf(product) < 0x1p-126f ? 0.0f : product;
#endif
}

// e^x for x <= 0, with the bits of exp_of(). kRound contains the exponent's offset of 127, so the
// low bits of t are the exponent bits of 2^n. If exp_of() gives 0, p times 2^n is subnormal
// or 2^n is 0.
__device__ inline float exp_below(float x) {
  constexpr float kLog2E = 0x1.715476p+0f, kLn2High = 0x1.62e43p-1f, kLn2Low = -0x1.05c61p-29f;
  constexpr float kLowest = -88.0f, kRound = 12582912.0f + 127.0f;
  x = larger_or_nan(x, kLowest);
  const float t = fmaf(x, kLog2E, kRound);
  const float n = t - kRound;
  const float r = fmaf(n, -kLn2Low, fmaf(n, -kLn2High, x));
  float p = 1.0f / 5040;
  p = fmaf(p, r, 1.0f / 720);
  p = fmaf(p, r, 1.0f / 120);
  p = fmaf(p, r, 1.0f / 24);
  p = fmaf(p, r, 1.0f / 6);
  p = fmaf(p, r, 0.5f);
  p = fmaf(p, r, 1.0f);
  p = fmaf(p, r, 1.0f);
  return multiply_to_zero(p, std::bit_cast<float>(std::bit_cast<uint32_t>(t) << 23));
}

using ProbabilityWords = uint32_t[kBlockKeys / 16][4];

// Turns the scores of two pairs, which are not scaled yet, into probabilities, by the steps of
// take_scores() and take_probabilities(). The scale is positive, so the highest score may be scaled
// alone. `shrink` gets the factors by which the earlier sums are rescaled.
__device__ inline void update_softmax(const float (&scores)[32], float scale, Softmax (&softmax)[2],
                                      float (&shrink)[2], ProbabilityWords& words) {
  float base[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float highest[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      highest[i] = fmaxf(scores[4 * i + 2 * half], scores[4 * i + 2 * half + 1]);
    }
#pragma unroll
    for (int n = 4; n < 8; ++n) {
      highest[n % 4] =
          fmaxf(highest[n % 4], fmaxf(scores[4 * n + 2 * half], scores[4 * n + 2 * half + 1]));
    }
    float most = fmaxf(fmaxf(highest[0], highest[1]), fmaxf(highest[2], highest[3]));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(softmax[half].highest, most * scale);
    base[half] = base_of(most);
    shrink[half] = exp_below(softmax[half].highest - base[half]);
    softmax[half].highest = most;
  }
  float total[2] = {0, 0};
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float low = scores[4 * n + 2 * half] * scale - base[half];
      const float high = scores[4 * n + 2 * half + 1] * scale - base[half];
      const uint32_t two = rounded_pair<BF16>(exp_below(low), exp_below(high));
      total[half] =
          total[half] + std::bit_cast<float>(two << 16) + std::bit_cast<float>(two & 0xffff0000u);
      words[n / 2][n % 2 * 2 + half] = two;
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = over_lanes<Sum, 4>(total[half]);
    softmax[half].total = fmaf(softmax[half].total, shrink[half], sum);
  }
}

}  // namespace lockstep::LOCKSTEP_TARGET
