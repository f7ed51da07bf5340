// SPDX-License-Identifier: Apache-2.0
// CUDA's words for code that runs on the CPU, so that tests can run kernels where there is no GPU:
// a block's threads are fibers, switched where they wait for each other; blocks run one after
// another. Host threads run kernels of their own beside each other; x86-64 only. Nothing but what
// our kernels use.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names.
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static thread_local  // Of the block that runs: one at a time on a host thread.
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
// a __syncthreads(). Ascending, asynchronous copies are done as late as they may be; descending, at
// once. Of this host thread's kernels.
enum class Order { kAscending, kDescending };
void set_order(Order order);

// `shared_bytes` is the size of dynamic_shared(), whose contents every block finds to be 0xff.
void run(int64_t blocks_x, int64_t blocks_y, int threads, int64_t shared_bytes, Body body);
std::byte* dynamic_shared();
// How many kernels were run so far.
int64_t launches();

// Gives bytes to the threads of the warp, and returns when all of them have given theirs: all must
// call it. given() is what thread `lane` of the warp gave, until this thread gives again.
inline constexpr size_t kMaxGivenBytes = 48;
void give(const void* from, size_t bytes);
const void* given(int lane);

// The functions of cuda/mma.h. `widen` says what 16 bits mean.
void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                  float (*widen)(uint16_t bits));
uint32_t fma_pairs(uint32_t a, uint32_t b, uint32_t c);
void load_matrices(uint32_t (&to)[4], const void* row);
void load_matrices_transposed(uint32_t (&to)[4], const void* row);
void copy_async(void* to, const void* from, int bytes);
void commit_copies();
void wait_copies(int under_way);

// The functions of cuda/system_scope.h. A pause lets other host threads run.
uint64_t nanoseconds();
void pause(unsigned turn);

}  // namespace lockstep::shim

// Of the thread that runs.
extern thread_local constinit lockstep::shim::Index threadIdx, blockIdx, blockDim, gridDim;

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names.
void __syncthreads();

template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  lockstep::shim::give(&value, sizeof(value));
  return *static_cast<const T*>(lockstep::shim::given(static_cast<int>(threadIdx.x % 32) ^ mask));
}
// NOLINTEND(bugprone-reserved-identifier)

inline int atomicAdd(int* address, int value) {
  const int before = *address;
  *address = before + value;
  return before;
}
