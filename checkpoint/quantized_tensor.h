// SPDX-License-Identifier: Apache-2.0
// How a checkpoint stores a quantized matrix [rows, cols] (docs/quantization.md): NAME has the
// codes, I8 [rows, cols] or U8 [rows, ceil(cols / 2)], two codes of 4 bits per byte, the low one of
// the even column; NAME.scales and, where the kind has them, NAME.minima are BF16 [rows, groups].
// A stack of matrices [matrices, rows, cols] has one more dimension in front of each.
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

// Codes, scales and, where the kind has them, minima, of a matrix or a stack of this shape.
std::vector<TensorSpec> quantized_tensors(const std::string& name, const Quantization& kind,
                                          const std::vector<int64_t>& shape);

// Whether the checkpoint has `name` as codes, of whatever kind.
bool is_quantized(const Checkpoint& checkpoint, std::string_view name);

// One line where a quantized matrix or stack is not stored in exactly this kind and shape.
absl::Status check_quantized(const Checkpoint& checkpoint, const std::string& name, DType kind,
                             const std::vector<int64_t>& shape);

// A rectangle of whole groups of a matrix that passed check_quantized. Files are not trusted: codes
// and scales that no quantizer gives (-128, infinity) are an error.
absl::Status read_quantized(const Checkpoint& checkpoint, const std::string& name,
                            const Quantization& kind, const Rectangle& rectangle,
                            const QuantizedRows& out);

// Codes of rows as the file has them.
std::vector<std::byte> stored_codes(const Quantization& kind, const int8_t* codes, int64_t rows,
                                    int64_t cols);

// One line that names the tensor where one of its values is infinite or no number: quantizing would
// hide that.
absl::Status check_finite(std::string_view name, const float* values, int64_t count);

}  // namespace lockstep
