// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized_tensor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/json.h"

namespace lockstep {
namespace {

constexpr std::string_view kScales = ".scales";
constexpr std::string_view kMinima = ".minima";

std::string joined(std::string_view name, std::string_view suffix) {
  return std::string(name) + std::string(suffix);
}

int64_t code_columns(const Quantization& kind, int64_t cols) { return (cols * kind.bits + 7) / 8; }

// The groups that contain the rectangle's columns.
Rectangle groups_of(const Quantization& kind, const Rectangle& rectangle) {
  Rectangle groups = rectangle;
  groups.col_begin = kind.group == 0 ? 0 : rectangle.col_begin / kind.group;
  groups.col_end = kind.group == 0 ? (rectangle.cols() > 0 ? 1 : 0)
                                   : (rectangle.col_end + kind.group - 1) / kind.group;
  return groups;
}

absl::Status read_codes(const Checkpoint& checkpoint, const std::string& name,
                        const Quantization& kind, const Rectangle& rectangle, int8_t* codes) {
  const TensorInfo& tensor = *checkpoint.find(name);
  if (kind.bits == 8) {
    RETURN_IF_ERROR(checkpoint.read_stored(tensor, rectangle, codes));
    const int64_t count = rectangle.rows() * rectangle.cols();
    if (std::find(codes, codes + count, int8_t{-128}) == codes + count) return absl::OkStatus();
    return failed_precondition("{}: must have codes of -127 to 127, found -128", printable(name));
  }
  Rectangle bytes = rectangle;  // Groups have an even length, so no pair is split.
  bytes.col_begin = rectangle.col_begin / 2;
  bytes.col_end = (rectangle.col_end + 1) / 2;
  std::vector<uint8_t> pairs(bytes.rows() * bytes.cols());
  RETURN_IF_ERROR(checkpoint.read_stored(tensor, bytes, pairs.data()));
  const int flip = kind.minimum ? 0 : 8;  // 8: codes are 4 bits in two's complement.
  for (int64_t row = 0; row < rectangle.rows(); ++row) {
    const uint8_t* from = &pairs[row * bytes.cols()];
    int8_t* to = codes + row * rectangle.cols();
    for (int64_t col = 0; col < rectangle.cols(); ++col) {
      const int nibble = (from[col / 2] >> (col % 2 * 4)) & 15;
      to[col] = static_cast<int8_t>((nibble ^ flip) - flip);
    }
  }
  return absl::OkStatus();
}

absl::Status read_scales(const Checkpoint& checkpoint, const std::string& name,
                         const Rectangle& groups, uint16_t* out) {
  RETURN_IF_ERROR(checkpoint.read_stored(*checkpoint.find(name), groups, out));
  const auto infinite = [](uint16_t bits) { return (bits & 0x7f80) == 0x7f80; };
  const int64_t count = groups.rows() * groups.cols();
  if (std::none_of(out, out + count, infinite)) return absl::OkStatus();
  return failed_precondition("{}: must be finite numbers, found infinity or NaN", printable(name));
}

}  // namespace

std::vector<TensorSpec> quantized_tensors(const std::string& name, const Quantization& kind,
                                          const std::vector<int64_t>& shape) {
  std::vector<int64_t> codes = shape, groups = shape;
  codes.back() = code_columns(kind, shape.back());
  groups.back() = group_count(kind, shape.back());
  std::vector<TensorSpec> tensors = {{name, kind.bits == 8 ? "I8" : "U8", codes},
                                     {joined(name, kScales), "BF16", groups}};
  if (kind.minimum) tensors.push_back({joined(name, kMinima), "BF16", groups});
  return tensors;
}

bool is_quantized(const Checkpoint& checkpoint, std::string_view name) {
  const TensorInfo* codes = checkpoint.find(name);
  return codes != nullptr && (codes->dtype_name == "I8" || codes->dtype_name == "U8") &&
         checkpoint.find(joined(name, kScales)) != nullptr;
}

absl::Status check_quantized(const Checkpoint& checkpoint, const std::string& name, DType dtype,
                             const std::vector<int64_t>& shape) {
  const std::optional<Quantization> kind = quantization(dtype);
  LOCKSTEP_CHECK(kind.has_value());
  for (const TensorSpec& wanted : quantized_tensors(name, *kind, shape)) {
    const TensorInfo* found = checkpoint.find(wanted.name);
    if (found != nullptr && found->dtype_name == wanted.dtype && found->shape == wanted.shape) {
      continue;
    }
    return failed_precondition(
        "{}: as {} it must be {} {}, found {}: it was quantized in another way; run it in its own "
        "scheme (no --quantize)",
        printable(wanted.name), dtype_name(dtype), wanted.dtype, shape_text(wanted.shape),
        found == nullptr ? "none"
                         : fmt::format("{} {}", found->dtype_name, shape_text(found->shape)));
  }
  if (kind->minimum || checkpoint.find(joined(name, kMinima)) == nullptr) return absl::OkStatus();
  return failed_precondition(
      "{}: {} has no minima, the checkpoint has some: it was quantized in another way; run it in "
      "its own scheme (no --quantize)",
      printable(name), dtype_name(dtype));
}

absl::Status read_quantized(const Checkpoint& checkpoint, const std::string& name,
                            const Quantization& kind, const Rectangle& rectangle,
                            const QuantizedRows& out) {
  const Rectangle groups = groups_of(kind, rectangle);
  RETURN_IF_ERROR(read_codes(checkpoint, name, kind, rectangle, out.codes));
  RETURN_IF_ERROR(read_scales(checkpoint, joined(name, kScales), groups, out.scales));
  if (!kind.minimum) return absl::OkStatus();
  return read_scales(checkpoint, joined(name, kMinima), groups, out.minima);
}

std::vector<std::byte> stored_codes(const Quantization& kind, const int8_t* codes, int64_t rows,
                                    int64_t cols) {
  const int64_t width = code_columns(kind, cols);
  std::vector<std::byte> bytes(rows * width);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      const auto code = static_cast<uint8_t>(codes[row * cols + col]);
      std::byte& to = bytes[row * width + (kind.bits == 8 ? col : col / 2)];
      to |= kind.bits == 8 ? std::byte{code} : static_cast<std::byte>((code & 15) << col % 2 * 4);
    }
  }
  return bytes;
}

absl::Status check_finite(std::string_view name, const float* values, int64_t count) {
  uint32_t largest = 0;  // Infinity and NaN have all exponent bits set.
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu);
  }
  if (largest < 0x7f800000u) return absl::OkStatus();
  return failed_precondition("{}: must be finite numbers to be quantized, found infinity or NaN",
                             printable(name));
}

}  // namespace lockstep
