// SPDX-License-Identifier: Apache-2.0
// Every operator in its plainest form: the specification against which kernels are tested. Sums are
// in double. Arguments are those of the kernels, except that weights are plain rows [N, K] (their
// view has rows, cols, stride and dtype). A page of the KV state is [page_tokens][kv_heads][key and
// value], for int8 followed by the scales; its size in bytes is that of the kernels' page.
// parallel and scratch are not used. Results are rounded to the type of their view. Earlier values
// are rounded only where the kernels must do so, too: for instance rows of linears over codes, and
// queries of attention. A view of a quantized type points to a QuantizedRows
// (base/numbers/quantization.h) with its rows and cols; its stride has no meaning.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep::reference {

// The reference of an operator; null for collectives and views.
KernelFn kernel(Op op);

// Reads element (row, col) of a float32, bfloat16, float16, int8 or quantized matrix, or stores
// one, rounded (an int8 must be an integer; not for quantized matrices).
float element(const TensorView& view, int64_t row, int64_t col);
void set_element(const TensorView& view, int64_t row, int64_t col, float value);

// Stores f(row, col) for every element.
template <typename F>
void fill(const TensorView& out, const F& f) {
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) set_element(out, r, c, static_cast<float>(f(r, c)));
  }
}

// The scale, minimum and code of a quantized matrix. An int4 scale whose magnitude is below 2^-66
// counts as zero; one of 2^66 or more counts as just below 2^66.
double quantized_scale(const TensorView& view, int64_t row, int64_t group);
double quantized_minimum(const TensorView& view, int64_t row, int64_t group);
int quantized_code(const TensorView& view, int64_t row, int64_t col);

// linear of float32 rows with quantized weights: the rows become int8 codes -127 .. 127, rounded to
// nearest even, in the weight's groups (q8c: a whole row). For int8 weights a group's scale is its
// largest magnitude / 127, or 0 if that magnitude is below 2^-100; a code is x * (127 / largest) in
// float32. For int4 weights the scale is the smallest power of two, from 2^-60 on, with largest
// <= 127 * scale. A row with an element that is not finite, or with a scale above 2^62, is NaN.
const char* linear_of_codes(const KernelArgs& args);

}  // namespace lockstep::reference
