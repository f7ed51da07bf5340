// SPDX-License-Identifier: Apache-2.0
// The two products of attention by wgmma (wgmma.h), and what keeps ptxas from serializing them.
// Emulated over the shim.
//
// A block of 64 rows is stored in shared memory as panels of 64 columns: a panel is 64 rows of 128
// bytes, swizzled as in wgmma.h, 8 KiB. Queries times keys: A and B are rows. Probabilities times
// values: A is in registers; B is turned (transposed), since a step takes 16 rows of values, not 16
// columns.
#pragma once

#include "worker/kernels/cuda/hopper/wgmma.h"

namespace lockstep::LOCKSTEP_TARGET {

inline constexpr int kPanelBytes = 64 * 128;

// The offset of eight columns of a row in a block.
__device__ inline int piece_place(int row, int piece) {
  return piece / 8 * kPanelBytes + row * 128 + (piece ^ row) % 8 * 16;
}

// The addition to rows_descriptor() for a step of 16 columns.
__device__ constexpr int columns_step(int step) {
  return step / 4 * (kPanelBytes >> 4) + step % 4 * 2;
}

// The descriptor of 16 rows of turned B: eight more rows are 1024 bytes further, and 64 more
// columns are one panel further. For each next 16 rows the caller adds kRowsStep.
inline constexpr int kRowsStep = 16 * 128 >> 4;
__device__ inline uint64_t turned_descriptor(SharedAddress address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kEightRows = uint64_t{1024 >> 4} << 32;
  constexpr uint64_t kNextColumns = uint64_t{kPanelBytes >> 4} << 16;
  return kSwizzle128 | kEightRows | kNextColumns | (address & 0x3ffff) >> 4;
}

template <int kCount>
__device__ inline void pin_words(uint32_t (&words)[kCount][4]) {
#ifdef __CUDACC__
#pragma unroll
  for (int i = 0; i < kCount * 4; ++i) asm volatile("" : "+r"(words[i / 4][i % 4]) : : "memory");
#else
  static_cast<void>(words);
#endif
}

// A copy of `word` in another register, since a product may still read the register of `word`.
__device__ inline uint32_t in_new_register(uint32_t word) {
#ifdef __CUDACC__
  uint32_t copy;
  asm volatile("mov.b32 %0, %1;" : "=r"(copy) : "r"(word));
  return copy;
#else
  return word;
#endif
}

// Forces `sum` to be computed before this call; otherwise ptxas moves the computation after the
// next wait. The sum is never negative, but the compiler does not know that.
__device__ inline void compute_here(float sum) {
#ifdef __CUDACC__
  if (__any_sync(kAllLanes, sum < 0)) __trap();
#else
  static_cast<void>(sum);
#endif
}

// d = A * B (+ d if kKeep): a warpgroup's 64 rows of A by 64 rows of B, 16 columns of each, both in
// shared memory.
template <int kKeep>
__device__ inline void multiply_rows(float (&d)[32], uint64_t a, uint64_t b) {
#ifdef __CUDACC__
  asm volatile(
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LOCKSTEP_SUMS_32
      "}, %32, %33, keep, 1, 1, 0, 0;\n}"
      : LOCKSTEP_OUTS_32
      : "l"(a), "l"(b), "n"(kKeep));
#else
  shim::multiply_shared_rows(d, 64, a, b, kKeep != 0, kFormat<BF16>);
#endif
}

// d = A * B (+ d if `keep`): 16 columns of A by 16 rows of B, for all columns of B.
#ifdef __CUDACC__
#define LOCKSTEP_TURNED(COLS, SUMS, A0, A1, A2, A3, B, KEEP)                                 \
  __device__ inline void multiply_turned(float(&d)[SUMS], const uint32_t(&a)[4], uint64_t b, \
                                         int keep) {                                         \
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #KEEP                            \
                 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #COLS                             \
                 "k16.f32.bf16.bf16 {" LOCKSTEP_SUMS_##SUMS                                  \
                 "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", keep, 1, 1, 1;\n}"   \
                 : LOCKSTEP_OUTS_##SUMS                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));           \
  }
LOCKSTEP_TURNED(64, 32, 32, 33, 34, 35, 36, 37)
LOCKSTEP_TURNED(128, 64, 64, 65, 66, 67, 68, 69)
#undef LOCKSTEP_TURNED
#else
template <int kSums>
void multiply_turned(float (&d)[kSums], const uint32_t (&a)[4], uint64_t b, int keep) {
  shim::multiply_turned(d, kSums * 2, a, b, keep != 0, kFormat<BF16>);
}
#endif

}  // namespace lockstep::LOCKSTEP_TARGET
