// SPDX-License-Identifier: Apache-2.0
// The shim's part for compute capability 9.0: blocks of a cluster that run together, conditions
// that a thread waits for, and work that ends later than the instruction that starts it.
#pragma once

#include <functional>

#include "worker/kernels/cuda/shim/shim.h"

#define __cluster_dims__(...)  // NOLINT(bugprone-reserved-identifier): CUDA's name.

namespace lockstep::shim {

using Work = std::function<void()>;

// Like run(), but every `cluster` neighbouring blocks run together.
void run_clusters(int64_t blocks, int cluster, int threads, int64_t shared_bytes, Body body);
int block_in_cluster();  // The running thread's.
int blocks_in_cluster();
std::byte* shared_of(int block);  // A block's dynamic_shared().

void meet_cluster();  // Returns when all threads of the cluster have called it.

// wait_until() returns when the condition holds. Other threads, or late work, make it hold.
struct Condition {
  const void* self = nullptr;
  bool (*holds)(const void* self) = nullptr;
};
void wait_until(Condition condition);

// With kAscending the work is done when no thread can run; with kDescending it is done at once.
void do_late(Work work);

// A product that the running thread begins: with kAscending it is computed at once, with
// kDescending when the thread waits for the group that commit_products() ends.
void add_product(Work product);
void commit_products();
void wait_products(int under_way);

// A barrier of 8 bytes in shared memory (mbarrier): a phase ends when `count` arrivals and all
// bytes that the arrivals expect have come. An offset is a place in a block's dynamic_shared().
void barrier_init(uint32_t offset, int count);
void barrier_expect(uint32_t offset, int bytes);  // Arrives, too.
void barrier_arrive(uint32_t offset, int block);
void barrier_wait(uint32_t offset, unsigned parity);

// A matrix in memory as rows of elements, and the size of the box that one copy takes from it.
struct TensorMap {
  const std::byte* data = nullptr;
  int64_t cols = 0;
  int64_t rows = 0;
  int64_t row_bytes = 0;
  int box_cols = 0;
  int box_rows = 0;
  int element_bytes = 0;
  bool swizzled = false;  // Pieces of 16 bytes are exchanged within rows of 128 bytes.
};
// Copies the box that begins at (col, row) to the same offset in each block of `mask`, with zeros
// for elements outside of the matrix. Then the barrier of each of these blocks counts the bytes.
void load_tile(uint32_t to, const TensorMap& map, int col, int row, uint32_t barrier,
               unsigned mask);

// sums = A * B (+ sums if `keep`) for the running warp's 16 rows of A, in registers as for
// multiply_add(), and `rows` rows of B in shared memory, 16 numbers of each row. `descriptor`
// describes B. Number 4j + 2h + i of the sums is that of row 8h + lane / 4 and B's row 8j + 2 *
// (lane % 4) + i.
void multiply_rows(float* sums, int rows, const uint32_t (&a)[4], uint64_t descriptor, bool keep,
                   const Format& format);
// The same, with A in shared memory, too: `a` is the descriptor of the warpgroup's 64 rows of A.
void multiply_shared_rows(float* sums, int rows, uint64_t a, uint64_t b, bool keep,
                          const Format& format);
// The same for turned (transposed) B: 16 rows, `cols` numbers of each in panels of 64. The
// descriptor has the distances of eight rows and of a panel.
void multiply_turned(float* sums, int cols, const uint32_t (&a)[4], uint64_t descriptor, bool keep,
                     const Format& format);

}  // namespace lockstep::shim
