// SPDX-License-Identifier: Apache-2.0
// CUDA's words for code that runs on the CPU, so that tests can run kernels where there is no GPU:
// a block's threads are fibers, switched where they wait for each other; blocks run one after
// another. For one host thread; x86-64 only. Nothing but what our kernels use.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names.
#define __global__
#define __device__
#define __launch_bounds__(threads)
#define __shared__ static  // Of the block that runs: there is only one at a time.
// NOLINTEND(bugprone-reserved-identifier)

namespace lockstep::shim {

struct Index {
  unsigned x = 0;
  unsigned y = 0;
};

// What one thread runs.
struct Body {
  const void* self;
  void (*call)(const void* self);
};

// In which order a block's threads run between two waits. A kernel whose results depend on it lacks
// a __syncthreads().
enum class Order { kAscending, kDescending };
void set_order(Order order);

void run(int64_t blocks_x, int64_t blocks_y, int threads, Body body);

// Gives `value` to the threads of the warp and takes what thread `lane` of it gave. All threads of
// the warp must call it.
uint64_t exchange(uint64_t value, int lane);

}  // namespace lockstep::shim

// Of the thread that runs.
extern lockstep::shim::Index threadIdx, blockIdx, blockDim, gridDim;

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names.
void __syncthreads();

inline float __shfl_xor_sync(unsigned, float value, int mask) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const uint64_t other = lockstep::shim::exchange(std::bit_cast<uint32_t>(value), lane ^ mask);
  return std::bit_cast<float>(static_cast<uint32_t>(other));
}
inline unsigned long long __shfl_xor_sync(unsigned, unsigned long long value, int mask) {
  return lockstep::shim::exchange(value, static_cast<int>(threadIdx.x % 32) ^ mask);
}
// NOLINTEND(bugprone-reserved-identifier)

inline int atomicAdd(int* address, int value) {
  const int before = *address;
  *address = before + value;
  return before;
}
