// SPDX-License-Identifier: Apache-2.0
// Makes a chunk's values if they are the first columns of its keys: the same numbers, in the order
// of values (kv_format.h). The numbers are transposed once per block for all queries of a task,
// which costs a few percent of the queries' time. Sums have the bits that they have with stored
// values.
//
//   transpose_columns<F>(keys, values, stride): transposes 16 columns of a chunk. `keys` points
//   into the chunk's keys, `values` into its values.
#pragma once

#include "worker/kernels/cpu/pages/kv_format.h"

#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 1
#include "worker/kernels/cpu/attention/values_of_keys_avx2.h"
#else
#include "worker/kernels/cpu/attention/values_of_keys_portable.h"
#endif

namespace lockstep::LOCKSTEP_ISA {

template <typename F>
void values_of_keys(const typename F::Element* keys, int64_t k_padded, typename F::Element* values,
                    int64_t v_padded, int64_t v_stride) {
  for (int64_t d = 0; d < v_padded; d += Vec::kLanes) {
    transpose_columns<F>(keys + d * kChunk, values + d * F::kPack, v_stride);
  }
  if constexpr (F::kScaled) {
    __builtin_memcpy(scales_of(values, v_stride), scales_of(keys, k_padded),
                     kChunk * sizeof(float));
  }
}

}  // namespace lockstep::LOCKSTEP_ISA
