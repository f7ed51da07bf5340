// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory (mbarrier) of compute capability 9.0, as PTX on a GPU, emulated over
// the shim. A barrier is 8 bytes. Its phases have parity 0, 1, 0 ...: a wait for parity 1 of a new
// barrier returns at once.
#pragma once

#include "worker/kernels/cuda/hopper/cluster.h"

namespace lockstep::LOCKSTEP_TARGET {

// A phase ends after `count` arrivals.
__device__ inline void barrier_init(SharedAddress barrier, int count) {
#ifdef __CUDACC__
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(barrier), "r"(count) : "memory");
#else
  shim::barrier_init(barrier, count);
#endif
}

// After this call and a cluster_meet(), all threads and copies of the cluster may use the barriers
// that this thread has initialized.
__device__ inline void publish_barriers() {
#ifdef __CUDACC__
  asm volatile(
      "fence.mbarrier_init.release.cluster;\n"
      "fence.proxy.async.shared::cta;"
      :
      :
      : "memory");
#endif
}

// Arrives. The phase then also waits until copies have written this many bytes.
__device__ inline void barrier_expect(SharedAddress barrier, int bytes) {
#ifdef __CUDACC__
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(barrier), "r"(bytes)
               : "memory");
#else
  shim::barrier_expect(barrier, bytes);
#endif
}

// Arrives at the barrier of a block of the cluster. The instruction has no .release.cluster, since
// the memory that it hands over was only read. With .release.cluster, ptxas would add a wait for
// all memory accesses at the scope of the GPU.
__device__ inline void barrier_arrive(SharedAddress barrier, int block) {
#ifdef __CUDACC__
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}"
      :
      : "r"(barrier), "r"(block)
      : "memory");
#else
  shim::barrier_arrive(barrier, block);
#endif
}

// Makes this thread's writes to shared memory visible to copies and products. Call it before the
// barrier_arrive_here() after which they begin.
__device__ inline void publish_writes() {
#ifdef __CUDACC__
  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
#endif
}

// Arrives at a barrier of this block. Threads that wait for the phase then see what this thread
// wrote.
__device__ inline void barrier_arrive_here(SharedAddress barrier) {
#ifdef __CUDACC__
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
#else
  shim::barrier_arrive(barrier, shim::block_in_cluster());
#endif
}

// Waits for the end of the phase of this parity. Then all bytes that copies have written can be
// read.
__device__ inline void barrier_wait(SharedAddress barrier, unsigned parity) {
#ifdef __CUDACC__
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
      "@ended bra done;\n"
      "bra again;\n"
      "done:\n"
      "}"
      :
      : "r"(barrier), "r"(parity)
      : "memory");
#else
  shim::barrier_wait(barrier, parity);
#endif
}

// The same for arrivals from all blocks of the cluster.
__device__ inline void barrier_wait_cluster(SharedAddress barrier, unsigned parity) {
#ifdef __CUDACC__
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%0], %1;\n"
      "@ended bra done;\n"
      "bra again;\n"
      "done:\n"
      "}"
      :
      : "r"(barrier), "r"(parity)
      : "memory");
#else
  shim::barrier_wait(barrier, parity);
#endif
}

// A stage of the ring, and the parity of its phase.
template <int kStages>
struct RingPlace {
  int stage = 0;
  unsigned parity = 0;

  __device__ int before() const { return stage == 0 ? kStages - 1 : stage - 1; }
  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

}  // namespace lockstep::LOCKSTEP_TARGET
