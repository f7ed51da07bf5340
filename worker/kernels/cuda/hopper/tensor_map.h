// SPDX-License-Identifier: Apache-2.0
// Copies of a matrix's tiles into shared memory by the tensor memory accelerator (TMA) of compute
// capability 9.0: one thread starts a copy, a barrier counts its bytes. Emulated over the shim.
#pragma once

#include "worker/kernels/cuda/hopper/barriers.h"

#ifdef __CUDACC__
#include <cuda.h>
#endif

namespace lockstep::LOCKSTEP_TARGET {

#ifdef __CUDACC__
using TensorMap = CUtensorMap;
#else
using TensorMap = shim::TensorMap;
#endif

// A matrix of numbers of 2 or 8 bytes in memory, and its tiles. Rows begin at multiples of 16
// bytes. Tiles of 2-byte numbers are 64 columns wide. In shared memory they are rows of 128 bytes,
// whose pieces of 16 bytes are swizzled as wgmma.h expects. Tiles of 8-byte numbers are plain rows.
struct TiledMatrix {
  const void* data = nullptr;
  int64_t cols = 0;
  int64_t rows = 0;
  int64_t row_bytes = 0;
  int tile_cols = 0;  // At most 256, like tile_rows.
  int tile_rows = 0;
  int element_bytes = 2;
};

// Null, or why there is no map.
const char* make_map(const TiledMatrix& matrix, TensorMap* map);

// Loads a map, which is a kernel's parameter, before its first use.
__device__ inline void prefetch_map(const TensorMap& map) {
#ifdef __CUDACC__
  asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory");
#else
  static_cast<void>(map);
#endif
}

// Copies the tile that begins at (col, row), with zeros for what is outside of the matrix. All of
// its bytes count at the barrier.
__device__ inline void load_tile(SharedAddress to, const TensorMap& map, int col, int row,
                                 SharedAddress barrier) {
#ifdef __CUDACC__
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3}], [%4];"
      :
      : "r"(to), "l"(&map), "r"(col), "r"(row), "r"(barrier)
      : "memory");
#else
  shim::load_tile(to, map, col, row, barrier, 1u << shim::block_in_cluster());
#endif
}

// Like load_tile(), for each block of the cluster whose bit is set in `blocks`: the copy goes to
// the same address in that block, and its bytes count at that block's barrier.
__device__ inline void load_shared_tile(SharedAddress to, const TensorMap& map, int col, int row,
                                        SharedAddress barrier, uint16_t blocks) {
#ifdef __CUDACC__
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
      :
      : "r"(to), "l"(&map), "r"(col), "r"(row), "r"(barrier), "h"(blocks)
      : "memory");
#else
  shim::load_tile(to, map, col, row, barrier, blocks);
#endif
}

}  // namespace lockstep::LOCKSTEP_TARGET
