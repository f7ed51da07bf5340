// SPDX-License-Identifier: Apache-2.0
// Elements of a matrix as float32: stored as numbers, or as codes and scales (quantized_rows.h).
#pragma once

#include "worker/kernels/cuda/scalar.h"
#include "worker/kernels/quantized_rows.h"

namespace lockstep::LOCKSTEP_TARGET {

template <typename T>
struct Numbers {
  TensorView view;

  __device__ float at(int64_t row, int64_t col) const { return widen(view.row<T>(row)[col]); }
};

// code * scale (+ minimum), rounded once.
template <DType kWeight>
struct Codes {
  TensorView view;

  __device__ float at(int64_t row, int64_t col) const {
    constexpr Quantization kKind = *quantization(kWeight);
    const auto* bytes =
        static_cast<const uint8_t*>(view.data) + row * quantized_row_bytes(kKind, view.cols);
    const auto* numbers = reinterpret_cast<const BF16*>(bytes);
    const uint8_t* codes = bytes + row_codes_begin(kKind, view.cols);
    const int64_t group = kKind.group == 0 ? 0 : col / max(1, kKind.group);
    const float scale = widen(numbers[group]);
    int code = 0;
    if constexpr (kKind.bits == 8) {
      code = static_cast<int8_t>(codes[col]);
    } else {
      code = (codes[col / 2] >> (col % 2 * 4) & 0x0f) - (kKind.minimum ? 0 : 8);
    }
    if constexpr (kKind.minimum) {
      const int64_t groups = group_count(kKind, view.cols);
      return fmaf(static_cast<float>(code), scale, widen(numbers[groups + group]));
    }
    return static_cast<float>(code) * scale;
  }
};

}  // namespace lockstep::LOCKSTEP_TARGET
