// SPDX-License-Identifier: Apache-2.0
// CUDA's names for code that runs on the CPU, so that tests can run kernels without a GPU: a
// block's threads are fibers, switched where they wait for each other; blocks run one after
// another. Several host threads may run kernels of their own at the same time. The shim is for
// x86-64, and has only what our kernels use.
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
#define __shared__ static thread_local  // The running block's: one at a time per host thread.
// NOLINTEND(bugprone-reserved-identifier)

namespace lockstep::shim {

struct Index {
  unsigned x = 0;
  unsigned y = 0;
};

// The function that one thread runs.
struct Body {
  const void* self;
  void (*call)(const void* self);
};

// The order in which a block's threads run between two waits. A kernel whose results depend on it
// lacks a __syncthreads(). kAscending does asynchronous copies as late as possible, kDescending at
// once. set_order() is for kernels of this host thread.
enum class Order { kAscending, kDescending };
void set_order(Order order);

// `shared_bytes` is the size of dynamic_shared(), filled with 0xff when a block begins.
void run(int64_t blocks_x, int64_t blocks_y, int threads, int64_t shared_bytes, Body body);
std::byte* dynamic_shared();
// The number of kernels that have run so far.
int64_t launches();

// Gives bytes to the threads of the warp, and returns when all of them have given theirs: all must
// call it. given() returns what thread `lane` of the warp gave, until this thread gives again.
inline constexpr size_t kMaxGivenBytes = 96;
void give(const void* from, size_t bytes);
const void* given(int lane);

// A type of 16 bits: how its bits become a number, and the exponent of its smallest normal number.
struct Format {
  float (*widen)(uint16_t bits);
  int32_t min_exponent;
};

// The functions of cuda/mma.h.
void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                  const Format& format);
uint32_t fma_pairs(uint32_t a, uint32_t b, uint32_t c);
void load_matrices(uint32_t (&to)[4], const void* row);
void load_matrices_transposed(uint32_t (&to)[4], const void* row);
void copy_async(void* to, const void* from, int bytes);
void commit_copies();
void wait_copies(int under_way);

// The functions of cuda/peers/system_scope.h. A pause lets other host threads run.
uint64_t nanoseconds();
void pause(unsigned poll);

}  // namespace lockstep::shim

// The running thread's indices.
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
