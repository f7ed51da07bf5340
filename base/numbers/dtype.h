// SPDX-License-Identifier: Apache-2.0
// Element types of tensors, from the checkpoint to the kernels. program.proto mirrors the numbers.
#pragma once

#include <cstdint>

namespace lockstep {

// From kQ8 on: integers with one scale per group, stored as base/numbers/quantization.h defines.
// Types kQ... are for weights only, kA... for values only. KV pages may be kI8.
enum class DType : uint8_t {
  kNone = 0,
  kF32 = 1,
  kBF16 = 2,
  kF16 = 3,
  kI32 = 4,
  kI8 = 5,
  kQ8 = 6,
  kQ8C = 8,
  kQ4 = 9,
  kQ4M = 12,
  kA8 = 15,
  kA8P = 16,
};
inline constexpr int kDTypeEnd = 17;  // Above every number; unused ones belonged to removed types.

// Bytes of one element; 0 for kNone and for the quantized types, whose elements have no whole
// number of bytes.
[[gnu::always_inline]] constexpr int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kI8:
      return 1;
    default:
      return 0;
  }
}

// The name used in flags, configs and listings: float32, bfloat16, float16, int32, int8, q8, a8.
const char* dtype_name(DType dtype);

// The name used in listings of programs: f32, bf16, f16, i32, i8, else as above.
const char* dtype_short_name(DType dtype);

}  // namespace lockstep
