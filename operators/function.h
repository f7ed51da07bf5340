// SPDX-License-Identifier: Apache-2.0
// The elementwise functions of `map`, `gated` and `gated_linear`, which functions.inc lists.
#pragma once

#include <cstdint>

namespace lockstep {

inline constexpr float kQuickGeluSlope = 1.702f;

//   silu          x * sigmoid(x)
//   gelu          x / 2 * (1 + erf(x / sqrt(2)))
//   gelu_tanh     x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
//   relu          max(x, 0)
//   relu_squared  max(x, 0)^2
//   sigmoid       1 / (1 + e^-x)
//   tanh
//   scale         x * factor
//   cap           factor * tanh(x / factor)
//   quick_gelu    x * sigmoid(1.702 x)
//   clamp         min(max(x, -factor), factor)
//   clamp_above   min(x, factor)
//   softplus      log(1 + e^x)
//   exp           e^x
enum class Function : int32_t {
#define LOCKSTEP_FUNCTION(number, constant, message, word) constant = number,
#include "operators/functions.inc"
};

inline constexpr int kFunctionCount = 0
#define LOCKSTEP_FUNCTION(number, constant, message, word) +1
#include "operators/functions.inc"
    ;

// Whether the function has a factor. The factor must be above 0, except for scale.
constexpr bool has_factor(Function function) {
  return function == Function::kScale || function == Function::kCap ||
         function == Function::kClamp || function == Function::kClampAbove;
}

}  // namespace lockstep
