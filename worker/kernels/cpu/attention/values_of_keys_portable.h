// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker/kernels/cpu/pages/kv_format.h"

namespace lockstep::LOCKSTEP_ISA {

template <typename F>
void transpose_columns(const typename F::Element* keys, typename F::Element* values,
                       int64_t stride) {
  for (int64_t slot = 0; slot < kChunk; ++slot) {
    for (int64_t d = 0; d < Vec::kLanes; ++d) {
      values[value_at<F>(slot, d, stride)] = keys[key_at<F>(slot, d)];
    }
  }
}

}  // namespace lockstep::LOCKSTEP_ISA
