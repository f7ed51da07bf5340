// SPDX-License-Identifier: Apache-2.0
// The functions of `map` on the device: the steps of cpu/vector/vec_math.h, and so its bits.
#pragma once

#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {

__device__ inline float silu_of(float x) { return x / (1.0f + exp_of(0.0f - x)); }

__device__ inline float sigmoid_of(float x) { return 1.0f / (1.0f + exp_of(0.0f - x)); }
__device__ inline float relu_of(float x) { return x != x ? x : x > 0.0f ? x : 0.0f; }

// The coefficient of the highest power is first.
template <int kCount>
__device__ float polynomial(float x, const float (&coefficients)[kCount]) {
  float y = coefficients[0];
  for (int i = 1; i < kCount; ++i) y = fmaf(y, x, coefficients[i]);
  return y;
}

__device__ inline float tanh_of(float x) {
  constexpr float kNear[] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                             1.33314422036e-1f, -3.33332819422e-1f};
  const float z = x * x, size = x > 0.0f - x ? x : 0.0f - x;
  if (x != x) return x;
  if (size < 0.625f) return fmaf(polynomial(z, kNear) * z, x, x);
  const float far = 1.0f - 2.0f / (exp_of(size + size) + 1.0f);
  return x < 0.0f ? 0.0f - far : far;
}

__device__ inline float erf_of(float x) {
  constexpr float kNear[] = {7.853861353153693e-5f,  -8.010193625184903e-4f, 5.188327685732524e-3f,
                             -2.685381193529856e-2f, 1.128358514861418e-1f,  -3.761262582423300e-1f,
                             1.128379165726710e+0f};
  constexpr float kMiddle[] = {
      2.326819970068386e-2f,  -1.387039388740657e-1f, 3.687424674597105e-1f,
      -5.824733027278666e-1f, 6.210004621745983e-1f,  -4.944515323274145e-1f,
      3.404879937665872e-1f,  -2.741127028184656e-1f, 5.638259427386472e-1f};
  constexpr float kFar[] = {-1.047766399936249e+1f, 1.297719955372516e+1f,  -7.495518717768503e+0f,
                            2.921019019210786e+0f,  -1.015265279202700e+0f, 4.218463358204948e-1f,
                            -2.820767439740514e-1f, 5.641895067754075e-1f};
  const float z = x * x, size = x > 0.0f - x ? x : 0.0f - x;
  if (x != x) return x;
  if (size < 1.0f) return x * polynomial(z, kNear);
  const float q = 1.0f / size, q2 = q * q;
  const float tail = size < 2.0f ? polynomial(q2, kMiddle) : polynomial(q2, kFar);
  const float far = 1.0f - exp_of(0.0f - z) * q * tail;
  return x < 0.0f ? 0.0f - far : far;
}

// log(1 + x), 0 <= x <= 1.
__device__ inline float log_of_more(float x) {
  constexpr float kSeries[] = {2.0f / 17, 2.0f / 15, 2.0f / 13, 2.0f / 11,
                               2.0f / 9,  2.0f / 7,  2.0f / 5,  2.0f / 3};
  const float s = x / (2.0f + x), z = s * s;
  return fmaf(polynomial(z, kSeries) * z, s, s + s);
}

__device__ inline float softplus_of(float x) {
  const float size = x > 0.0f - x ? x : 0.0f - x;
  return x != x ? x : (x > 0.0f ? x : 0.0f) + log_of_more(exp_of(0.0f - size));
}

__device__ inline float gelu_of(float x) { return x * 0.5f * (1.0f + erf_of(x * 0x1.6a09e6p-1f)); }

__device__ inline float gelu_tanh_of(float x) {
  constexpr float kTwice = 1.5957691216057308f, kCubic = 0.0713548162726f;
  const float twice_u = x * fmaf(x * x, kCubic, kTwice);
  return x / (1.0f + exp_of(0.0f - twice_u));
}

__device__ inline float function_of(Function function, float factor, float x) {
  switch (function) {
    case Function::kNone:
      break;
    case Function::kSilu:
      return silu_of(x);
    case Function::kGelu:
      return gelu_of(x);
    case Function::kGeluTanh:
      return gelu_tanh_of(x);
    case Function::kRelu:
      return relu_of(x);
    case Function::kReluSquared:
      return relu_of(x) * relu_of(x);
    case Function::kSigmoid:
      return sigmoid_of(x);
    case Function::kTanh:
      return tanh_of(x);
    case Function::kScale:
      return x * factor;
    case Function::kCap:
      return factor * tanh_of(x / factor);
    case Function::kQuickGelu:
      return x * sigmoid_of(x * kQuickGeluSlope);
    case Function::kClamp:
      return factor < x ? factor : x < -factor ? -factor : x;
    case Function::kClampAbove:
      return factor < x ? factor : x;
    case Function::kSoftplus:
      return softplus_of(x);
    case Function::kExp:
      return exp_of(x);
  }
  return x;
}

// The function of a gated_linear's pairs; kNone for a linear, which has no attributes.
inline MapAttrs map_of(const OperatorAttrs& attrs) {
  return attrs.kind() == AttrsKind::kMap ? attrs.map() : MapAttrs{};
}
// Columns of the product of a linear or gated_linear; the latter makes one column of two.
constexpr int64_t product_cols(Function function, int64_t out_cols) {
  return function == Function::kNone ? out_cols : 2 * out_cols;
}

}  // namespace lockstep::LOCKSTEP_TARGET
