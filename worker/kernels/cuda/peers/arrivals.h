// SPDX-License-Identifier: Apache-2.0
// Each block of threads counts itself when it has done its part. The last block continues with the
// results of all of them.
#pragma once

#include "worker/kernels/cuda/target.h"

namespace lockstep::LOCKSTEP_TARGET {

// All threads of each of `blocks` blocks call it once. True in the block that calls it last: its
// threads then see all that the other blocks had written to memory. The counter is 0 before the
// first call and after the last one.
__device__ inline bool arrives_last(int32_t* counter, int32_t blocks) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
#ifdef __CUDACC__
    int32_t before;
    asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_global(counter))
                 : "memory");
#else
    const int32_t before = __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
#endif
    is_last = before == blocks - 1;
    if (is_last) *counter = 0;
  }
  __syncthreads();
  return is_last;
}

}  // namespace lockstep::LOCKSTEP_TARGET
