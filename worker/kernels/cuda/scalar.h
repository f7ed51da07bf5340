// SPDX-License-Identifier: Apache-2.0
// Numbers on the device: storage types, functions with the CPU kernels' bits, and reductions over a
// block's threads or over sixteen lanes, always in one order.
#pragma once

#include <type_traits>

#include "base/numbers/float16.h"
#include "worker/kernels/cuda/target.h"

namespace lockstep::LOCKSTEP_TARGET {

// Elements of matrices as stored.
struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(BF16 x) { return bf16_to_float(x.bits); }
__device__ inline float widen(F16 x) { return f16_to_float(x.bits); }
__device__ inline void narrow(float x, float& to) { to = x; }
__device__ inline void narrow(float x, BF16& to) { to.bits = float_to_bf16(x); }
__device__ inline void narrow(float x, F16& to) { to.bits = float_to_f16(x); }

// `to` is float32 or bfloat16.
__device__ inline void set_element(const TensorView& to, int64_t row, int64_t col, float x) {
  if (to.dtype == DType::kBF16) {
    narrow(x, to.row<BF16>(row)[col]);
  } else {
    to.row<float>(row)[col] = x;
  }
}

constexpr int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

// e^x with the steps of cpu/vector/vec_math.h.
__device__ inline float exp_of(float x) {
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e43p-1f, kLn2Low = -0x1.05c61p-29f;
  constexpr float kMin = -0x1.5d589ep+6f, kMax = 0x1.62e42ep+6f;
  constexpr float kRound = 12582912.0f;
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
  const float y =
      std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(t) << 23));
  if (x != x) return x;
  if (x < kMin) return 0.0f;
  return kMax < x ? kInfinity : y;
}

struct Sum {
  __device__ static float of(float a, float b) { return a + b; }
};
struct Max {
  __device__ static float of(float a, float b) { return a > b ? a : b; }
  __device__ static unsigned long long of(unsigned long long a, unsigned long long b) {
    return a > b ? a : b;
  }
};

// Reduces over groups of kLanes neighbouring threads, in pairs: first threads that are kLanes / 2
// apart, then kLanes / 4, and so on. Each thread gets the result. Sixteen lanes are added in the
// order of a CPU's vector. All threads of the warp call it.
template <typename F, int kLanes, typename T>
__device__ T over_lanes(T x) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    x = F::of(x, __shfl_xor_sync(0xffffffffu, x, half));
  }
  return x;
}

// Reduces over all threads of the block, which all call it and all get the result.
template <typename F, typename T>
__device__ T over_block(T x) {
  __shared__ T of_warps[kWarp];
  x = over_lanes<F, kWarp>(x);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = of_warps[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) x = F::of(x, of_warps[warp]);
  __syncthreads();  // The array may be reused.
  return x;
}

}  // namespace lockstep::LOCKSTEP_TARGET
