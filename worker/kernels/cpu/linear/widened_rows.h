// SPDX-License-Identifier: Apache-2.0
// Rows of bfloat16 for kernels that multiply in float32: each is widened when it is laid out.
#pragma once

#include "worker/kernels/cpu/linear/linear.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

struct WidenedRows : PlainSums {
  using Activation = uint16_t;
  using Guard = FlushDenormals;
  static constexpr PanelLayout kLayout = widened_layout(DType::kBF16);

  static void lay_out(const uint16_t* x, int64_t count, std::byte* to, int64_t r, int64_t,
                      RowValue&) {
    const uint32_t pair[2] = {uint32_t{x[0]} << 16, count > 1 ? uint32_t{x[1]} << 16 : 0};
    __builtin_memcpy(to + 8 * r, pair, sizeof(pair));
  }
};

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
