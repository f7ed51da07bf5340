// SPDX-License-Identifier: Apache-2.0
// Every CPU kernel of an x86 machine. Lookup takes the first row that fits, so the best are first.
// Tests and benchmarks walk this same array.
#include "worker/kernels/cpu/table.h"

#define LOCKSTEP_ISA amx
#define LOCKSTEP_ISA_NAME "amx"
#include "worker/kernels/cpu/dot_rows.inc"
#include "worker/kernels/cpu/tiles/tile_ways.inc"
#undef LOCKSTEP_ISA
#undef LOCKSTEP_ISA_NAME

#define LOCKSTEP_ISA avx512_bf16
#define LOCKSTEP_ISA_NAME "avx512_bf16"
#include "worker/kernels/cpu/dot_rows.inc"
#undef LOCKSTEP_ISA
#undef LOCKSTEP_ISA_NAME

#define LOCKSTEP_ISA avx512_vnni
#define LOCKSTEP_ISA_NAME "avx512_vnni"
#include "worker/kernels/cpu/dot_rows.inc"
#undef LOCKSTEP_ISA
#undef LOCKSTEP_ISA_NAME

#define LOCKSTEP_ISA avx512
#define LOCKSTEP_ISA_NAME "avx512"
#include "worker/kernels/cpu/dot_rows.inc"
#include "worker/kernels/cpu/rows.inc"
#undef LOCKSTEP_ISA
#undef LOCKSTEP_ISA_NAME

#define LOCKSTEP_ISA avx2_vnni
#define LOCKSTEP_ISA_NAME "avx2_vnni"
#include "worker/kernels/cpu/dot_rows.inc"
#undef LOCKSTEP_ISA
#undef LOCKSTEP_ISA_NAME

#define LOCKSTEP_ISA avx2
#define LOCKSTEP_ISA_NAME "avx2"
#include "worker/kernels/cpu/dot_rows.inc"
#include "worker/kernels/cpu/rows.inc"
#undef LOCKSTEP_ISA
#undef LOCKSTEP_ISA_NAME

#define LOCKSTEP_ISA portable
#define LOCKSTEP_ISA_NAME "portable"
#include "worker/kernels/cpu/dot_rows.inc"
#include "worker/kernels/cpu/rows.inc"
#undef LOCKSTEP_ISA
#undef LOCKSTEP_ISA_NAME

namespace lockstep {
namespace {
constexpr auto kernels(bool slow_pairs) {
  constexpr auto by_pairs = avx512_bf16::pair_rows(), by_floats = avx512_vnni::pair_rows();
  return merge(amx::code_rows(), amx::pair_linear_rows(),
               slow_pairs ? merge(by_floats, by_pairs) : merge(by_pairs, by_floats),
               avx512_bf16::other_rows(), avx512_vnni::other_rows(), avx512::dot_rows(),
               avx512::rows(), avx2_vnni::code_rows(), avx2_vnni::word_rows(), avx2::dot_rows(),
               avx2::rows(), portable::dot_rows(), portable::rows(), kRopeTable);
}
constexpr auto kSlowPairs = kernels(true), kFastPairs = kernels(false);

// Two float32 fma have the bits of one vdpbf16ps. On Intel's processors they are faster: 175 and 86
// giga-operations per second on one core of a Xeon of model 207. On Zen 4, vdpbf16ps is faster.
bool has_slow_pairs() { return __builtin_cpu_is("intel") != 0; }
}  // namespace

std::span<const KernelEntry> cpu_kernels() { return has_slow_pairs() ? kSlowPairs : kFastPairs; }

std::span<const KernelVariant> amx_variants() {
  static constexpr auto kVariants = amx::tile_variants();
  return kVariants;
}

}  // namespace lockstep
