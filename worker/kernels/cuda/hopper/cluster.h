// SPDX-License-Identifier: Apache-2.0
// Clusters of blocks of compute capability 9.0, their shared memory and their warpgroups, as PTX on
// a GPU, emulated over the shim.
#pragma once

#include "worker/kernels/cuda/mma.h"
#include "worker/kernels/cuda/warp.h"

#ifndef __CUDACC__
#include "worker/kernels/cuda/shim/clusters.h"
#endif

namespace lockstep::LOCKSTEP_TARGET {

inline constexpr int kWarpgroup = 4 * kWarp;
inline constexpr int kMaxWgmmaSharedBytes = 227 << 10;  // For one block.

// An address in shared memory. One address names the same variable in all blocks of a cluster, but
// each block has its own copy of the variable.
using SharedAddress = uint32_t;

__device__ inline SharedAddress dynamic_shared_address() {
#ifdef __CUDACC__
  return shared_address(dynamic_shared());
#else
  return 0;
#endif
}

__device__ inline std::byte* shared_bytes(SharedAddress address) {
  return dynamic_shared() + (address - dynamic_shared_address());
}

// The number of the block in its cluster.
__device__ inline int cluster_rank() {
#ifdef __CUDACC__
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
#else
  return shim::block_in_cluster();
#endif
}

// Returns when all threads of the cluster have called it. It orders no memory.
__device__ inline void cluster_meet() {
#ifdef __CUDACC__
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;\n"
      "barrier.cluster.wait.aligned;"
      :
      :
      : "memory");
#else
  shim::meet_cluster();
#endif
}

// All threads of a warpgroup (four warps) call these together. fewer_registers(): each thread gives
// back registers beyond kRegisters. more_registers(): each thread waits until others have given
// back enough, and then has kRegisters.
template <int kRegisters>
__device__ inline void fewer_registers() {
#ifdef __CUDACC__
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ inline void more_registers() {
#ifdef __CUDACC__
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(kRegisters));
#endif
}

// The number of multiprocessors of the current device. The shim has `of_shim`.
inline int processors([[maybe_unused]] int of_shim) {
#ifdef __CUDACC__
  int device = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
#else
  return of_shim;
#endif
}

// Like launch(), for a kernel whose blocks meet in clusters of `cluster`.
template <typename... Params, typename... Args>
const char* launch_clusters(void (*kernel)(Params...), int64_t clusters, int cluster, int threads,
                            int64_t shared_bytes, [[maybe_unused]] void* queue,
                            const Args&... args) {
  const int64_t blocks = clusters * cluster;
#ifdef __CUDACC__
  return launch(kernel, {.x = blocks, .shared_bytes = shared_bytes}, threads, queue, args...);
#else
  const auto thread = [&] { kernel(args...); };
  shim::run_clusters(
      blocks, cluster, threads, shared_bytes,
      {&thread, [](const void* self) { (*static_cast<const decltype(thread)*>(self))(); }});
  return nullptr;
#endif
}

}  // namespace lockstep::LOCKSTEP_TARGET
