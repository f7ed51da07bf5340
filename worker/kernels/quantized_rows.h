// SPDX-License-Identifier: Apache-2.0
// How plain rows of quantized weights are stored: the scales, then the minima if the kind has them,
// as bfloat16; then the codes. For int4 a byte has two codes, the earlier one in its low half. The
// row is filled up to a multiple of 4 bytes. embed reads such rows on every back end, and linear
// reads them on CUDA. Internal linkage, since files of every ISA include it.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep {
namespace {

// The offset of the codes in a row of `cols`, and the bytes of the row.
[[maybe_unused, gnu::always_inline]] constexpr int64_t row_codes_begin(const Quantization& kind,
                                                                       int64_t cols) {
  return 2 * group_count(kind, cols) * (kind.minimum ? 2 : 1);
}
[[maybe_unused, gnu::always_inline]] constexpr int64_t quantized_row_bytes(const Quantization& kind,
                                                                           int64_t cols) {
  return (row_codes_begin(kind, cols) + (cols * kind.bits + 7) / 8 + 3) / 4 * 4;
}

}  // namespace
}  // namespace lockstep
