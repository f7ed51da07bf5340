// SPDX-License-Identifier: Apache-2.0
// The language of .cu files: CUDA, or the shim that runs the same sources on the CPU in tests. A
// kernel is a __global__ function over views by value, started by launch(); every pointer in its
// views, attributes and step is the device's. The only headers of ours that .cu files include are
// this folder's, kernel.h, device.h, peer_memory.h, quantized_rows.h, choose_experts.h and what is
// constexpr in base and operators.
// LOCKSTEP_TARGET is the namespace of everything that is compiled for either target.
#pragma once

#include "worker/kernels/kernel.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define LOCKSTEP_TARGET cuda
#else
#include "worker/kernels/cuda/shim/shim.h"
#define LOCKSTEP_TARGET cuda_shim
#endif

namespace lockstep::LOCKSTEP_TARGET {

inline constexpr int kWarp = 32;
inline constexpr float kInfinity = __builtin_inff();

// The blocks of a launch. `x` may be any number of rows, `y` at most 65535; with 0 there is no
// launch. Each block has `shared_bytes` at dynamic_shared(): every GPU allows up to 99 KiB.
struct Grid {
  int64_t x = 1;
  int64_t y = 1;
  int64_t shared_bytes = 0;
};
inline constexpr int64_t kMaxSharedBytes = 99 << 10;

// Aligned to 16 bytes.
__device__ inline std::byte* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ uint4 lockstep_dynamic_shared[];
  return reinterpret_cast<std::byte*>(lockstep_dynamic_shared);
#else
  return shim::dynamic_shared();
#endif
}

// For each row, one block per kRowThreads columns, but at most 64 blocks; threads stride over the
// remaining columns.
inline constexpr int kRowThreads = 256;
inline Grid row_grid(int64_t rows, int64_t cols) {
  const int64_t blocks = (cols + kRowThreads - 1) / kRowThreads;
  return {rows, blocks < 64 ? blocks : 64};
}

// Starts a kernel in the order of the queue with `threads` (a multiple of kWarp) per block; a
// kernel started with more than 256 needs __launch_bounds__, or it might lack registers. Null, or
// why it could not be started; the Device's next synchronize() reports errors while it runs.
template <typename... Params, typename... Args>
const char* launch(void (*kernel)(Params...), Grid grid, int threads, void* queue,
                   const Args&... args) {
  if (grid.x <= 0 || grid.y <= 0) return nullptr;
#ifdef __CUDACC__
  constexpr int64_t kWithoutAsking = 48 << 10;
  const int shared_bytes = static_cast<int>(grid.shared_bytes);
  if (grid.shared_bytes > kWithoutAsking) {
    const cudaError_t refused =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (refused != cudaSuccess) return cudaGetErrorString(refused);
  }
  kernel<<<dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y)), threads,
           shared_bytes, static_cast<cudaStream_t>(queue)>>>(args...);
  const cudaError_t error = cudaPeekAtLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
#else
  static_cast<void>(queue);
  const auto thread = [&] { kernel(args...); };
  shim::run(grid.x, grid.y, threads, grid.shared_bytes,
            {&thread, [](const void* self) { (*static_cast<const decltype(thread)*>(self))(); }});
  return nullptr;
#endif
}

}  // namespace lockstep::LOCKSTEP_TARGET
