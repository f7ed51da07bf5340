// SPDX-License-Identifier: Apache-2.0
// Exchange of single words between devices and the host in memory that they share: PTX at system
// scope on a GPU, the compiler's atomics over the shim.
#pragma once

#include "worker/kernels/cuda/target.h"

namespace lockstep::LOCKSTEP_TARGET {

// A thread whose load_acquire() reads the value sees all that the storing thread had done or seen
// before store_release(), including its block's work before a __syncthreads(). So do the threads
// that the loading thread then meets in a __syncthreads().
__device__ inline void store_release(uint64_t* to, uint64_t value) {
#ifdef __CUDACC__
  asm volatile("st.release.sys.global.u64 [%0], %1;"
               :
               : "l"(__cvta_generic_to_global(to)), "l"(value)
               : "memory");
#else
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
#endif
}
__device__ inline uint64_t load_acquire(const uint64_t* from) {
#ifdef __CUDACC__
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
               : "=l"(value)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return value;
#else
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
#endif
}

// One word alone; it orders no other memory.
__device__ inline void store_relaxed(uint32_t* to, uint32_t value) {
#ifdef __CUDACC__
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;"
               :
               : "l"(__cvta_generic_to_global(to)), "r"(value)
               : "memory");
#else
  __atomic_store_n(to, value, __ATOMIC_RELAXED);
#endif
}
__device__ inline uint32_t load_relaxed(const uint32_t* from) {
#ifdef __CUDACC__
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];"
               : "=r"(value)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return value;
#else
  return __atomic_load_n(from, __ATOMIC_RELAXED);
#endif
}

// A clock that advances while a kernel runs.
__device__ inline uint64_t nanoseconds() {
#ifdef __CUDACC__
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return shim::nanoseconds();
#endif
}

// Waits between two polls of a word that others will write.
__device__ inline void pause(unsigned poll) {
#ifdef __CUDACC__
  static_cast<void>(poll);
#else
  shim::pause(poll);
#endif
}

}  // namespace lockstep::LOCKSTEP_TARGET
