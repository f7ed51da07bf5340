// SPDX-License-Identifier: Apache-2.0
// How a checkpoint stores a quantized matrix [rows, cols] (docs/quantization.md): the tensor NAME
// has the codes, as I8 [rows, cols] or U8 [rows, ceil(cols / 2)]. U8 has two 4-bit codes per byte,
// the even column in the low half. NAME.scales and, if the kind has them, NAME.minima are BF16
// [rows, groups]. A stack of matrices [matrices, rows, cols] adds that first dimension to each of
// these tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers/quantization.h"
#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_writer.h"

namespace lockstep {

// The tensors for a matrix or stack of this shape: codes, scales and, if the kind has them, minima.
std::vector<TensorSpec> quantized_tensors(const std::string& name, const Quantization& kind,
                                          const std::vector<int64_t>& shape);

// Whether the checkpoint has `name` as codes of any kind.
bool is_quantized(const Checkpoint& checkpoint, std::string_view name);

// An error in one line unless the matrix or stack is stored in exactly this kind and shape.
absl::Status check_quantized(const Checkpoint& checkpoint, const std::string& name, DType kind,
                             const std::vector<int64_t>& shape);

// Reads a rectangle of whole groups of a matrix that passed check_quantized. Files are not trusted:
// codes and scales that no quantizer produces (-128, infinity) are an error.
absl::Status read_quantized(const Checkpoint& checkpoint, const std::string& name,
                            const Quantization& kind, const Rectangle& rectangle,
                            const QuantizedRows& out);

// The codes of rows in the file's layout.
std::vector<std::byte> stored_codes(const Quantization& kind, const int8_t* codes, int64_t rows,
                                    int64_t cols);

// An error that names the tensor if a value is infinite or NaN, which quantizing would hide.
absl::Status check_finite(std::string_view name, const float* values, int64_t count);

}  // namespace lockstep
