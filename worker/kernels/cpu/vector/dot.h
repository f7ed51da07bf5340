// SPDX-License-Identifier: Apache-2.0
// Dot products of short integers and floats within the lanes of a vector, for the ISA that
// LOCKSTEP_ISA names. The bits are the same on every ISA: CPUs' instructions define them, and an
// ISA without these instructions computes the same bits in another way.
//
//   Pairs: sixteen lanes of two bfloat16. Pairs::load(p): the 32 bfloat16 at p; Pairs::splat(p):
//   the two at p in every lane. dot_pairs(a, b, c): in each lane fma(a0, b0, fma(a1, b1, c)): the
//   *odd* element is added first, denormals count as zero (as in vdpbf16ps). To add k = 0, 1, 2,
//   ... in order a pair therefore holds (k + 1, k).
//   store_normal(v, p): v.store(p) for a v without denormals, which the CPUs' own instruction
//   would round to 0. even_of(a), odd_of(a): one element of every pair as a Vec.
//   Quads: sixteen lanes of four bytes, with the same load and splat. Sums: sixteen int32.
//   dot_quads(u, s, c): c plus the four products, u as unsigned and s as signed bytes; nothing
//   saturates, sums wrap around. low_nibbles(a), high_nibbles(a): the halves of every byte.
//   as_sums(v): the same bits as int32. to_float(sums), to_int(v): |v| < 2^22, to nearest even.
//   magnitude(v): the bits of |v|; compared as integers they have the order of the numbers, with
//   NaN above all. times_power(v, n << 23): v * 2^n, both of them normal.
//   FlushDenormals: while an object of this class exists on a thread, the thread's float32
//   arithmetic reads and writes denormals as zeros. The object must exist wherever dot_pairs
//   runs, or ISAs give different bits.
#pragma once

#include "worker/kernels/cpu/vector/vec.h"

namespace lockstep::LOCKSTEP_ISA {

#if defined(__x86_64__)
class FlushDenormals {
 public:
  FlushDenormals() : before_(__builtin_ia32_stmxcsr()) {
    __builtin_ia32_ldmxcsr(before_ | kZeroResults | kZeroOperands);
  }
  ~FlushDenormals() { __builtin_ia32_ldmxcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  static constexpr unsigned kZeroResults = 0x8000, kZeroOperands = 0x0040;
  unsigned before_;
};
#else
class FlushDenormals {};
#endif

// For kernels that keep denormals.
struct KeepDenormals {};

}  // namespace lockstep::LOCKSTEP_ISA

#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 3
#include "worker/kernels/cpu/vector/dot_avx512.h"
#elif LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 1
#include "worker/kernels/cpu/vector/dot_avx2.h"
#else
#include "worker/kernels/cpu/vector/dot_portable.h"
#endif

#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) < 5
namespace lockstep::LOCKSTEP_ISA {
inline void store_normal(Vec v, uint16_t* p) { v.store(p); }
}  // namespace lockstep::LOCKSTEP_ISA
#endif
