// SPDX-License-Identifier: Apache-2.0
// Loops over rows in pieces of a few thousand elements, so that starting a piece costs little
// compared with its work.
#pragma once

#include <cstdint>

#include "base/threads/parallel.h"

namespace lockstep::LOCKSTEP_ISA {

// body(row) for every row.
template <typename Body>
inline void for_rows(Parallel& parallel, int64_t rows, int64_t cols, const Body& body) {
  if (rows <= 0 || cols <= 0) return;
  const int64_t rows_each = 8192 / cols > 1 ? 8192 / cols : 1;
  for_each(parallel, (rows + rows_each - 1) / rows_each, [&](int64_t chunk) {
    const int64_t begin = chunk * rows_each;
    const int64_t end = begin + rows_each < rows ? begin + rows_each : rows;
    for (int64_t row = begin; row < end; ++row) body(row);
  });
}

}  // namespace lockstep::LOCKSTEP_ISA
