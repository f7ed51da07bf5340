// SPDX-License-Identifier: Apache-2.0
// Operations of a warp on tensor cores, and asynchronous copies into shared memory:
// mma.sync.m16n8k16, ldmatrix and cp.async of compute capability 8.0, as PTX on a GPU, emulated
// over the shim. All threads of a warp call its functions together. Lane 4g + t has:
//   A [16, 16]  words 0 to 3: rows g, g + 8, g, g + 8; columns 2t and 2t + 1, in words 2 and 3
//               those plus 8
//   B [16, 8]   words 0 and 1: column g; rows 2t and 2t + 1, in word 1 those plus 8
//   C [16, 8]   numbers 0 to 3: rows g, g, g + 8, g + 8; columns 2t, 2t + 1, 2t, 2t + 1
// A word is two numbers of 16 bits, the earlier column of A or row of B in its low half.
#pragma once

#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {

struct alignas(16) Words4 {
  uint32_t at[4];
};

#ifndef __CUDACC__
template <typename T>
inline constexpr shim::Format kFormat{.widen = [](uint16_t bits) { return widen(T{bits}); },
                                      .min_exponent = std::is_same_v<T, BF16> ? -126 : -14};
#endif

// C += A * B. Products are exact; their sum is a float32. A GPU aligns the 17 numbers of a sum and
// truncates them; how it does this differs between kinds of GPUs. The shim computes the bits of
// compute capability 9.0.
template <typename T>
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
#ifdef __CUDACC__
  if constexpr (std::is_same_v<T, BF16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    static_assert(std::is_same_v<T, F16>);
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#else
  shim::multiply_add(c, a, b0, b1, kFormat<T>);
#endif
}

// Two numbers as a word of 16 bits each, rounded to nearest even.
template <typename T>
__device__ inline uint32_t rounded_pair(float low, float high) {
#ifdef __CUDACC__
  uint32_t pair;
  if constexpr (std::is_same_v<T, BF16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    static_assert(std::is_same_v<T, F16>);
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  T first, second;
  narrow(low, first);
  narrow(high, second);
  return first.bits | static_cast<uint32_t>(second.bits) << 16;
#endif
}

// a * b + c of two bfloat16 in each word, rounded once.
__device__ inline uint32_t fma_pairs(uint32_t a, uint32_t b, uint32_t c) {
#ifdef __CUDACC__
  uint32_t sum;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
#else
  return shim::fma_pairs(a, b, c);
#endif
}

#ifdef __CUDACC__
__device__ inline uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}
#endif

// Loads four matrices of 8 rows of 8 16-bit numbers from shared memory: lane i has the address of
// row i % 8 of matrix i / 8, a multiple of 16 bytes. to[m] is row g, columns 2t and 2t + 1 of
// matrix m: a part of A stored by rows, or of B stored by columns.
__device__ inline void load_matrices(uint32_t (&to)[4], const void* row) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
#else
  shim::load_matrices(to, row);
#endif
}

// The same, transposed: to[m] has rows 2t and 2t + 1, column g.
__device__ inline void load_matrices_transposed(uint32_t (&to)[4], const void* row) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
#else
  shim::load_matrices_transposed(to, row);
#endif
}

// Writes 16 bytes of shared memory: `bytes` of global memory, then zeros. Both addresses are
// multiples of 16. If `bytes` is 0 nothing is read. This thread may read what was copied after
// wait_copies(), other threads after a __syncthreads() that follows it.
__device__ inline void copy_async(void* shared, const void* global, int bytes = 16) {
#ifdef __CUDACC__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)), "r"(bytes)
               : "memory");
#else
  shim::copy_async(shared, global, bytes);
#endif
}

// This thread's copies since the last commit form one group, which may be empty.
__device__ inline void commit_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" : : : "memory");
#else
  shim::commit_copies();
#endif
}

// Waits until all groups of this thread have ended except, at most, the latest kUnderWay.
template <int kUnderWay>
__device__ inline void wait_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" : : "n"(kUnderWay) : "memory");
#else
  shim::wait_copies(kUnderWay);
#endif
}

}  // namespace lockstep::LOCKSTEP_TARGET
