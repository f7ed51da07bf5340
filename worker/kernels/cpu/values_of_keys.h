// SPDX-License-Identifier: Apache-2.0
// A chunk's values where they are the first columns of its keys: the same numbers in the order of
// values (kv_format.h). Turned once per block for all queries of a task, they cost a few percent of
// what these compute, and sums have the bits of values that are stored.
//
//   turn_columns<F>(keys, values, stride): 16 columns of a chunk; `keys` is where they begin among
//   its keys, `values` where they do among its values.
#pragma once

#include "worker/kernels/cpu/kv_format.h"

#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 1
#include "worker/kernels/cpu/values_of_keys_avx2.h"
#else
#include "worker/kernels/cpu/values_of_keys_portable.h"
#endif

namespace lockstep::LOCKSTEP_ISA {

template <typename F>
void values_of_keys(const typename F::Element* keys, int64_t k_padded, typename F::Element* values,
                    int64_t v_padded, int64_t v_stride) {
  for (int64_t d = 0; d < v_padded; d += Vec::kLanes) {
    turn_columns<F>(keys + d * kChunk, values + d * F::kPack, v_stride);
  }
  if constexpr (F::kScaled) {
    __builtin_memcpy(scales_of(values, v_stride), scales_of(keys, k_padded),
                     kChunk * sizeof(float));
  }
}

}  // namespace lockstep::LOCKSTEP_ISA
