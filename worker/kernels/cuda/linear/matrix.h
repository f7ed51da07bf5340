// SPDX-License-Identifier: Apache-2.0
// Reads elements of a matrix as float32, or rounded once to bfloat16. The matrix is stored as
// numbers, or as codes and scales (quantized_rows.h).
#pragma once

#include "worker/kernels/cuda/mma.h"
#include "worker/kernels/quantized_rows.h"

namespace lockstep::LOCKSTEP_TARGET {

template <typename T>
struct Numbers {
  TensorView view;

  __device__ float at(int64_t row, int64_t col) const { return widen(view.row<T>(row)[col]); }
  __device__ BF16 rounded(int64_t row, int64_t col) const {
    BF16 nearest;
    narrow(at(row, col), nearest);
    return nearest;
  }
};

// code * scale (+ minimum).
template <DType kWeight>
struct Codes {
  TensorView view;

  __device__ float at(int64_t row, int64_t col) const {
    const Element e = element(row, col);
    if constexpr (kMinimum) return fmaf(e.code, widen(e.scale), widen(e.minimum));
    return e.code * widen(e.scale);
  }
  // Rounds the exact sum once; the result of at() is already rounded.
  __device__ BF16 rounded(int64_t row, int64_t col) const {
    const Element e = element(row, col);
    BF16 code;
    narrow(e.code, code);
    const uint32_t sum = fma_pairs(code.bits, e.scale.bits, kMinimum ? e.minimum.bits : 0x8000);
    return {static_cast<uint16_t>(sum)};
  }

 private:
  static constexpr bool kMinimum = quantization(kWeight)->minimum;
  struct Element {
    float code;
    BF16 scale;
    BF16 minimum;
  };

  __device__ Element element(int64_t row, int64_t col) const {
    constexpr Quantization kKind = *quantization(kWeight);
    const auto* bytes =
        static_cast<const uint8_t*>(view.data) + row * quantized_row_bytes(kKind, view.cols);
    const auto* numbers = reinterpret_cast<const BF16*>(bytes);
    const uint8_t* codes = bytes + row_codes_begin(kKind, view.cols);
    const int64_t group = kKind.group == 0 ? 0 : col / max(1, kKind.group);
    int code = 0;
    if constexpr (kKind.bits == 8) {
      code = static_cast<int8_t>(codes[col]);
    } else {
      code = (codes[col / 2] >> (col % 2 * 4) & 0x0f) - (kKind.minimum ? 0 : 8);
    }
    const int64_t minimum = kKind.minimum ? group_count(kKind, view.cols) + group : group;
    return {static_cast<float>(code), numbers[group], numbers[minimum]};
  }
};

// Rounded to bfloat16 if kRounds.
template <bool kRounds, typename Matrix>
__device__ float operand(const Matrix& matrix, int64_t row, int64_t col) {
  if constexpr (kRounds) return widen(matrix.rounded(row, col));
  return matrix.at(row, col);
}

}  // namespace lockstep::LOCKSTEP_TARGET
