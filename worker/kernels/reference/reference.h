// SPDX-License-Identifier: Apache-2.0
// Every operator as plainly as it can be said: the specification that kernels are tested against.
// Sums are in double. Same arguments as the kernels, but weights are plain rows [N, K] (their view
// has rows, cols, stride and dtype), and a page of the KV state is [page_tokens][kv_heads][2]
// [head_dim] (for int8 with the scales behind), of the same size. parallel and scratch are not
// used.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep::reference {

// The reference of an operator; null for collectives and views.
KernelFn kernel(Op op);

// Element (row, col) of a float32, bfloat16, float16 or int8 matrix; and storing one, rounded
// (an int8 is an integer already).
float element(const TensorView& view, int64_t row, int64_t col);
void set_element(const TensorView& view, int64_t row, int64_t col, float value);

void embed(const KernelArgs& args);
void linear(const KernelArgs& args);
void rms_norm(const KernelArgs& args);
void head_norm(const KernelArgs& args);
void add_norm(const KernelArgs& args);
void rope_table(const KernelArgs& args);
void rope(const KernelArgs& args);
void attention(const KernelArgs& args);
void silu(const KernelArgs& args);
void mul(const KernelArgs& args);
void add(const KernelArgs& args);
void gated(const KernelArgs& args);
void cast(const KernelArgs& args);
void select_rows(const KernelArgs& args);
void top_candidates(const KernelArgs& args);

}  // namespace lockstep::reference
