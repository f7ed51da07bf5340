// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

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
    case DType::kNone:
      return "none";
  }
  return "?";
}

}  // namespace lockstep
