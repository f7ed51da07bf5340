// SPDX-License-Identifier: Apache-2.0
// Weights as small integers: a row of K elements is divided into groups, and a group's elements are
//   code * scale            (symmetric: int8 codes -127..127, int4 codes -8..7)
//   code * scale + minimum  (int4 codes 0..15)
// with scale and minimum in bfloat16. Files, packers, kernels and the naive kernels of tests share
// this one definition. Pure functions; the same bits on every machine.
#pragma once

#include <cstdint>
#include <optional>

#include "base/numbers/dtype.h"

// Expands X(kQ8) X(kQ8C) ..., for code that is compiled once per quantized type.
#define LOCKSTEP_EACH_QUANTIZED(X) X(kQ8) X(kQ8C) X(kQ4) X(kQ4M)

namespace lockstep {

struct Quantization {
  int bits = 0;       // 8 or 4.
  int64_t group = 0;  // Consecutive elements of a row that share a scale; 0: the whole row.
  bool minimum = false;
};

// The definition of a type; nullopt for types that are not quantized.
[[gnu::always_inline]] constexpr std::optional<Quantization> quantization(DType dtype) {
  switch (dtype) {
    case DType::kQ8:
      return Quantization{8, 32, false};
    case DType::kQ8C:
      return Quantization{8, 0, false};
    case DType::kQ4:
      return Quantization{4, 32, false};
    case DType::kQ4M:
      return Quantization{4, 32, true};
    default:
      return std::nullopt;
  }
}

// The number of groups in a row of `cols` elements; the last group may be short.
[[gnu::always_inline]] constexpr int64_t group_count(const Quantization& kind, int64_t cols) {
  return kind.group == 0 ? (cols > 0 ? 1 : 0) : (cols + kind.group - 1) / kind.group;
}

// The bytes of rows of `cols` elements: codes (two 4-bit codes per byte), scales, minima.
[[gnu::always_inline]] constexpr int64_t quantized_bytes(const Quantization& kind, int64_t rows,
                                                         int64_t cols) {
  const int64_t scales = group_count(kind, cols) * (kind.minimum ? 2 : 1);
  return rows * ((cols * kind.bits + 7) / 8 + scales * static_cast<int64_t>(sizeof(uint16_t)));
}

// The bytes of a matrix of any type in files and listings.
[[gnu::always_inline]] constexpr int64_t matrix_bytes(DType dtype, int64_t rows, int64_t cols) {
  if (const auto kind = quantization(dtype)) return quantized_bytes(*kind, rows, cols);
  return rows * cols * dtype_bytes(dtype);
}

// If the next linear would round a value's rows, they are rounded before they are sent to other
// ranks. A rounded row is a list of groups of 32 columns, each with codes -127..127 and a scale.
// The last group of a row may be short; its unused codes are 0.
//   kA8   scale = largest magnitude / 127, as linears with int8 weights round
//   kA8P  scale = a power of two, as linears with int4 weights round
inline constexpr int64_t kRoundedGroup = 32;
struct RoundedGroup {
  int8_t codes[kRoundedGroup];
  float scale;  // NaN: an element is not finite or is too large; codes are then 0.
};

[[gnu::always_inline]] constexpr bool is_rounded(DType dtype) {
  return dtype == DType::kA8 || dtype == DType::kA8P;
}

// The type to which a linear with weights of this type rounds its rows; kNone if it does not round
// them by groups of kRoundedGroup.
[[gnu::always_inline]] constexpr DType rounded_rows(DType weight) {
  const auto kind = quantization(weight);
  if (!kind || kind->group != kRoundedGroup) return DType::kNone;
  return kind->bits == 8 ? DType::kA8 : DType::kA8P;
}

// A group is the elements of a row that are stored together: kRoundedGroup of them in a rounded
// row, one in any other row. These functions give a group's elements and bytes, and a row's groups
// and bytes.
[[gnu::always_inline]] constexpr int64_t group_elements(DType dtype) {
  return is_rounded(dtype) ? kRoundedGroup : 1;
}
[[gnu::always_inline]] constexpr int64_t group_bytes(DType dtype) {
  return is_rounded(dtype) ? static_cast<int64_t>(sizeof(RoundedGroup)) : dtype_bytes(dtype);
}
[[gnu::always_inline]] constexpr int64_t groups_of(DType dtype, int64_t cols) {
  return (cols + group_elements(dtype) - 1) / group_elements(dtype);
}
[[gnu::always_inline]] constexpr int64_t row_bytes(DType dtype, int64_t cols) {
  return groups_of(dtype, cols) * group_bytes(dtype);
}

// A block of rows in memory that the struct does not own; one byte per code, for 4-bit codes too.
struct QuantizedRows {
  int8_t* codes = nullptr;     // [rows][cols]
  uint16_t* scales = nullptr;  // [rows][group_count], bfloat16, finite, of either sign
  uint16_t* minima = nullptr;  // The same, if the kind has minima; else null.
};

// Finds the nearest codes for float32 rows [rows, cols] with `stride`. int8: the scale is the
// largest magnitude / 127, so quantizing the values code * scale again gives the same codes and
// scales. int4: the scale and minimum are those with the least squared error in a fixed set of
// trials, including plain rounding. Scales are rounded before codes are chosen. A group in which
// all magnitudes are below 2^-100 becomes zeros. The caller has checked that weights are finite.
void quantize_rows(const Quantization& kind, const float* source, int64_t stride, int64_t rows,
                   int64_t cols, const QuantizedRows& out);

}  // namespace lockstep
