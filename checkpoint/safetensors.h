// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file. The file begins with a number N (8 bytes, little endian). Then
// come N bytes of JSON, the header. The tensors' bytes follow, end to end. A header is not trusted;
// a header that parses describes the file exactly.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers/dtype.h"
#include "base/status.h"
#include "base/system/file.h"

namespace lockstep {

// Called repeatedly by work that may take seconds, so that the caller can report progress.
using ProgressCallback = std::function<void()>;

// A tensor's type, shape and place. Seen as a matrix: cols is the last dimension, rows the product
// of the others. A tensor of one dimension is one row; a tensor without dimensions is one element.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kNone;   // kNone: not readable as float32, see dtype_name.
  std::string_view dtype_name;  // In the header, e.g. "BF16", "I64". Static.
  std::vector<int64_t> shape;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t begin = 0;  // Bytes [begin, end) of the file.
  int64_t end = 0;
  int32_t file = 0;  // The index of the checkpoint's file.
};

inline constexpr int64_t kMaxHeaderBytes = 100'000'000;  // Hugging Face's own limit.
// Per file; the largest models have 150,000 in all. Bounds the memory for a hostile header.
inline constexpr int64_t kMaxTensors = 250'000;
inline constexpr int64_t kMaxTensorRank = 8;

// `header` is the JSON alone, `file_bytes` the size of the whole file, `what` its name in errors.
// The result is in order of position in the file.
absl::StatusOr<std::vector<TensorInfo>> parse_safetensors_header(
    std::string_view header, int64_t file_bytes, std::string_view what,
    const ProgressCallback& alive = {});

// Reads and parses the header of a file.
absl::StatusOr<std::vector<TensorInfo>> read_safetensors_header(const File& file,
                                                                const ProgressCallback& alive = {});

// The bits of an element, by the type's name in headers; 0: the format has no such type.
int64_t stored_bits(std::string_view dtype_name);

// "[2, 3]".
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace lockstep
