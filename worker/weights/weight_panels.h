// SPDX-License-Identifier: Apache-2.0
// In memory a weight consists of panels of kPackRows rows, matrix after matrix. The bytes of a
// panel depend only on its own rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/program.pb.h"
#include "proto/validate/validate.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

// The number of matrices that are packed separately: one per expert. `packer` null: the weight is
// plain rows of float32.
inline int64_t packed_matrices(const program::Weight& weight, const KernelEntry* packer) {
  return packer == nullptr ? 1 : matrices_of(weight);
}

// The bytes of the first `rows` rows of one matrix.
inline int64_t bytes_in_memory(const program::Weight& weight, const KernelEntry* packer,
                               int64_t rows) {
  if (packer != nullptr) return packer->packed_bytes(rows, weight.cols());
  return rows * weight.cols() * static_cast<int64_t>(sizeof(float));
}

struct Panel {
  int64_t matrix = 0;
  int64_t row_begin = 0;  // Within the matrix.
  int64_t row_end = 0;
  int64_t offset = 0;  // Within the weight's memory.
  int64_t bytes = 0;
};

template <typename Body>
void for_each_panel(const program::Weight& weight, const KernelEntry* packer, const Body& body) {
  if (weight.cols() == 0) return;
  const int64_t matrices = packed_matrices(weight, packer), rows = weight.rows() / matrices;
  const int64_t matrix_bytes = bytes_in_memory(weight, packer, rows);
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    for (int64_t row = 0; row < rows; row += kPackRows) {
      const int64_t end = std::min(row + kPackRows, rows);
      const int64_t begin_bytes = bytes_in_memory(weight, packer, row);
      body(Panel{.matrix = matrix,
                 .row_begin = row,
                 .row_end = end,
                 .offset = matrix * matrix_bytes + begin_bytes,
                 .bytes = bytes_in_memory(weight, packer, end) - begin_bytes});
    }
  }
}

}  // namespace lockstep
