// SPDX-License-Identifier: Apache-2.0
// Every CPU kernel of an x86 machine. Lookup takes the first row that fits, so the best come first.
// Tests and benchmarks walk this same array.
#include "worker/kernels/cpu/table.h"

#define LOCKSTEP_ISA avx512
#define LOCKSTEP_ISA_NAME "avx512"
#include "worker/kernels/cpu/rows.inc"
#undef LOCKSTEP_ISA
#undef LOCKSTEP_ISA_NAME

#define LOCKSTEP_ISA avx2
#define LOCKSTEP_ISA_NAME "avx2"
#include "worker/kernels/cpu/rows.inc"
#undef LOCKSTEP_ISA
#undef LOCKSTEP_ISA_NAME

#define LOCKSTEP_ISA portable
#define LOCKSTEP_ISA_NAME "portable"
#include "worker/kernels/cpu/rows.inc"

namespace lockstep {
namespace {
constexpr auto kCpuKernels = join(avx512::rows(), avx2::rows(), portable::rows());
}

std::span<const KernelEntry> cpu_kernels() { return kCpuKernels; }

}  // namespace lockstep
