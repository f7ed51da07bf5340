// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/dtype.h"

namespace lockstep {

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    case DType::kI32:
      return "int32";
    case DType::kI8:
      return "int8";
    case DType::kQ8:
      return "q8";
    case DType::kQ8C:
      return "q8c";
    case DType::kQ4:
      return "q4";
    case DType::kQ4M:
      return "q4m";
    case DType::kA8:
      return "a8";
    case DType::kA8P:
      return "a8p";
    case DType::kNone:
      return "none";
  }
  return "?";
}

const char* dtype_short_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI32:
      return "i32";
    case DType::kI8:
      return "i8";
    default:
      return dtype_name(dtype);
  }
}

}  // namespace lockstep
