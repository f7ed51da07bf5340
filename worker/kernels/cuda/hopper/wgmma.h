// SPDX-License-Identifier: Apache-2.0
// A warpgroup's matrix products on tensor cores of compute capability 9.0, by the instruction
// wgmma.mma_async.m64nNk16: 64 rows of A times kRows rows of B. Each warp has 16 rows of A in
// registers, as for multiply_add(); B is in shared memory. All threads of four warps call its
// functions together. Emulated over the shim.
//
// A lane 4g + t has sums d: number 4j + 2h + i is that of the warp's row 8h + g and B's row
// 8j + 2t + i. A sum's bits are those of multiply_add() for the same step. B consists of rows of
// 128 bytes (64 numbers of 16 bits) and begins at a multiple of 1024 bytes. The pieces of 16 bytes
// in a row are swizzled: piece p of row r is at place p ^ r % 8.
//
// Products run while the threads continue. Between wgmma_fence() and the wait for a group, no other
// instruction may use the group's sums or change its A.
#pragma once

#include "worker/kernels/cuda/hopper/barriers.h"

namespace lockstep::LOCKSTEP_TARGET {

// The descriptor of the rows of B that begin at this address. For each further step of 16 numbers,
// the caller adds 2 to the descriptor.
__device__ inline uint64_t rows_descriptor(SharedAddress address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kStride = uint64_t{1024 >> 4} << 32;
  constexpr uint64_t kUnused = uint64_t{1} << 16;  // The stride that only wider tiles use.
  return kSwizzle128 | kStride | kUnused | (address & 0x3ffff) >> 4;
}

// Products that begin after this call see registers that were written before it.
__device__ inline void wgmma_fence() {
#ifdef __CUDACC__
  asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
#endif
}

// Products since the last commit form a group.
__device__ inline void wgmma_commit() {
#ifdef __CUDACC__
  asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
#else
  shim::commit_products();
#endif
}

// Waits until all groups have ended except, at most, the latest kUnderWay.
template <int kUnderWay>
__device__ inline void wgmma_wait() {
#ifdef __CUDACC__
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(kUnderWay) : "memory");
#else
  shim::wait_products(kUnderWay);
#endif
}

// Keeps the compiler from moving uses of the sums across this point.
template <int kSums>
__device__ inline void pin(float (&sums)[kSums]) {
#ifdef __CUDACC__
#pragma unroll
  for (int i = 0; i < kSums; ++i) asm volatile("" : "+f"(sums[i]) : : "memory");
#else
  static_cast<void>(sums);
#endif
}

// add() begins to compute d = A * B (+ d if `keep`).
template <typename T, int kRows>
struct Wgmma;

#ifdef __CUDACC__
// The operands of the instruction, as text and as constraints: the sums, then A, B and `keep`.
#define LOCKSTEP_SUMS_32                     \
  "%0, %1, %2, %3, %4, %5, %6, %7"           \
  ", %8, %9, %10, %11, %12, %13, %14, %15"   \
  ", %16, %17, %18, %19, %20, %21, %22, %23" \
  ", %24, %25, %26, %27, %28, %29, %30, %31"
#define LOCKSTEP_SUMS_64                     \
  LOCKSTEP_SUMS_32                           \
  ", %32, %33, %34, %35, %36, %37, %38, %39" \
  ", %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55" \
  ", %56, %57, %58, %59, %60, %61, %62, %63"
#define LOCKSTEP_SUMS_88                     \
  LOCKSTEP_SUMS_64                           \
  ", %64, %65, %66, %67, %68, %69, %70, %71" \
  ", %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87"
#define LOCKSTEP_SUMS_96 \
  LOCKSTEP_SUMS_88       \
  ", %88, %89, %90, %91, %92, %93, %94, %95"
#define LOCKSTEP_SUMS_104 \
  LOCKSTEP_SUMS_96        \
  ", %96, %97, %98, %99, %100, %101, %102, %103"
#define LOCKSTEP_OUT_4(i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define LOCKSTEP_OUT_8(i) LOCKSTEP_OUT_4(i), LOCKSTEP_OUT_4((i) + 4)
#define LOCKSTEP_OUTS_32 \
  LOCKSTEP_OUT_8(0), LOCKSTEP_OUT_8(8), LOCKSTEP_OUT_8(16), LOCKSTEP_OUT_8(24)
#define LOCKSTEP_OUTS_64 \
  LOCKSTEP_OUTS_32, LOCKSTEP_OUT_8(32), LOCKSTEP_OUT_8(40), LOCKSTEP_OUT_8(48), LOCKSTEP_OUT_8(56)
#define LOCKSTEP_OUTS_88 \
  LOCKSTEP_OUTS_64, LOCKSTEP_OUT_8(64), LOCKSTEP_OUT_8(72), LOCKSTEP_OUT_8(80)
#define LOCKSTEP_OUTS_96 LOCKSTEP_OUTS_88, LOCKSTEP_OUT_8(88)
#define LOCKSTEP_OUTS_104 LOCKSTEP_OUTS_96, LOCKSTEP_OUT_8(96)
#define LOCKSTEP_WGMMA(TYPE, NAME, ROWS, SUMS, A0, A1, A2, A3, B, KEEP)                          \
  template <>                                                                                    \
  struct Wgmma<TYPE, ROWS> {                                                                     \
    __device__ static void add(float (&d)[SUMS], const uint32_t (&a)[4], uint64_t b, int keep) { \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #KEEP                              \
                   ", 0;\n"                                                                      \
                   "wgmma.mma_async.sync.aligned.m64n" #ROWS "k16.f32." NAME "." NAME            \
                   " {" LOCKSTEP_SUMS_##SUMS "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B \
                                             ", keep, 1, 1, 0;\n}"                               \
                   : LOCKSTEP_OUTS_##SUMS                                                        \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));             \
    }                                                                                            \
  };
#define LOCKSTEP_WGMMA_ROWS(TYPE, NAME)                         \
  LOCKSTEP_WGMMA(TYPE, NAME, 64, 32, 32, 33, 34, 35, 36, 37)    \
  LOCKSTEP_WGMMA(TYPE, NAME, 128, 64, 64, 65, 66, 67, 68, 69)   \
  LOCKSTEP_WGMMA(TYPE, NAME, 176, 88, 88, 89, 90, 91, 92, 93)   \
  LOCKSTEP_WGMMA(TYPE, NAME, 192, 96, 96, 97, 98, 99, 100, 101) \
  LOCKSTEP_WGMMA(TYPE, NAME, 208, 104, 104, 105, 106, 107, 108, 109)
LOCKSTEP_WGMMA_ROWS(BF16, "bf16")
LOCKSTEP_WGMMA_ROWS(F16, "f16")
#else
template <typename T, int kRows>
struct Wgmma {
  static void add(float (&d)[kRows / 2], const uint32_t (&a)[4], uint64_t b, int keep) {
    shim::multiply_rows(d, kRows, a, b, keep != 0, kFormat<T>);
  }
};
#endif

}  // namespace lockstep::LOCKSTEP_TARGET
