// SPDX-License-Identifier: Apache-2.0
// The result of casting a matrix to bfloat16.
#pragma once

#include "tests/worker/kernels/kernel_case.h"

namespace lockstep {

inline Matrix cast_matrix(const TensorView& x) {
  Matrix result(x.rows, x.cols, DType::kBF16);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) {
      reference::set_element(result.view(), r, c, reference::element(x, r, c));
    }
  }
  return result;
}

}  // namespace lockstep
