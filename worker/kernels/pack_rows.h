// SPDX-License-Identifier: Apache-2.0
// Packing of weights as plain rows [N][K]: floats, or codes as laid out in quantized_rows.h. Done
// on the host for every device.
#pragma once

#include "base/numbers/float16.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

// A PackedBytesFn and a PackFn for each type of weight.
template <DType kWeight>
int64_t plain_row_bytes(int64_t rows, int64_t cols);
template <DType kWeight>
void pack_plain_rows(const PackArgs& args);

// A number as float32, float16 or bfloat16, rounded to nearest even.
template <DType kWeight>
auto rounded_to(float value) {
  if constexpr (kWeight == DType::kF32) {
    return value;
  } else {
    return kWeight == DType::kF16 ? float_to_f16(value) : float_to_bf16(value);
  }
}

}  // namespace lockstep
