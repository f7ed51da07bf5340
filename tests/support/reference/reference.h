// SPDX-License-Identifier: Apache-2.0
// Every operator as plainly as it can be said: the specification that kernels are tested against.
// Sums are in double. Same arguments as the kernels, but weights are plain rows [N, K] (their view
// has rows, cols, stride and dtype), and a page of the KV state is [page_tokens][kv_heads][2]
// [head_dim] (for int8 with the scales behind), of the same size. parallel and scratch are not
// used. What is stored is rounded to the type of its view: that is all rounding there is. The data
// of a view whose type is quantized is a QuantizedRows (base/numbers/quantization.h) of its rows
// and cols; its stride says nothing.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep::reference {

// The reference of an operator; null for collectives and views.
KernelFn kernel(Op op);

// Element (row, col) of a float32, bfloat16, float16, int8 or quantized matrix; and storing one,
// rounded (an int8 is an integer already; not of a quantized matrix).
float element(const TensorView& view, int64_t row, int64_t col);
void set_element(const TensorView& view, int64_t row, int64_t col, float value);

// Stores f(row, col) for every element.
template <typename F>
void fill(const TensorView& out, const F& f) {
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) set_element(out, r, c, static_cast<float>(f(r, c)));
  }
}

// Of a quantized matrix. int4 scales below 2^-66 count as zero, above 2^66 as just below.
double quantized_scale(const TensorView& view, int64_t row, int64_t group);
double quantized_minimum(const TensorView& view, int64_t row, int64_t group);
int quantized_code(const TensorView& view, int64_t row, int64_t col);

// linear of float32 rows by quantized weights: the rows become int8 codes -127 .. 127, rounded to
// nearest even, in the weight's groups (q8c: a whole row). Their scale is, for int8 weights,
// largest magnitude / 127 (codes of x * (127 / largest), in float32; 0 where largest < 2^-100), for
// int4 the least power of two, from 2^-60 on, with largest <= 127 * scale. A row with an element
// that is not finite, or a scale above 2^62, is NaN.
const char* linear_of_codes(const KernelArgs& args);

}  // namespace lockstep::reference
