// SPDX-License-Identifier: Apache-2.0
// Element types of tensors, from the checkpoint to the kernels. program.proto mirrors the numbers.
#pragma once

#include <cstdint>

namespace lockstep {

enum class DType : uint8_t { kNone = 0, kF32 = 1, kBF16 = 2, kF16 = 3, kI32 = 4 };

// Bytes of one element; 0 for kNone.
[[gnu::always_inline]] constexpr int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kNone:
      return 0;
  }
  return 0;
}

// The name used in flags, configs and listings: float32, bfloat16, float16, int32.
const char* dtype_name(DType dtype);

}  // namespace lockstep
