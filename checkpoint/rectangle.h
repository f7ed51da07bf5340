// SPDX-License-Identifier: Apache-2.0
// A rectangle of a matrix, and the steps between a checkpoint and a kernel: widening to float32 and
// transposing.
#pragma once

#include <cstdint>

#include "base/numbers/dtype.h"

namespace lockstep {

struct Rectangle {
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t col_begin = 0;
  int64_t col_end = 0;

  int64_t rows() const { return row_end - row_begin; }
  int64_t cols() const { return col_end - col_begin; }
  bool empty() const { return rows() == 0 || cols() == 0; }
  // Whether the edges are in order and within a matrix [matrix_rows, matrix_cols).
  bool inside(int64_t matrix_rows, int64_t matrix_cols) const {
    return 0 <= row_begin && row_begin <= row_end && row_end <= matrix_rows && 0 <= col_begin &&
           col_begin <= col_end && col_end <= matrix_cols;
  }
};

// The types that widen() accepts: float32, bfloat16, float16.
bool widens(DType dtype);

// out[i] = source[i] as float32, exactly; a NaN keeps its bits. `source` is aligned for its type.
void widen(DType dtype, const void* source, int64_t count, float* out);

// out[c * out_stride + r] = source[r * cols + c].
void transpose(const float* source, int64_t rows, int64_t cols, float* out, int64_t out_stride);

}  // namespace lockstep
