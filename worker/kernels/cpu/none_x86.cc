// SPDX-License-Identifier: Apache-2.0
// Replaces table.cc on machines other than x86: only the portable kernels.
#include "worker/kernels/cpu/table.h"

#define LOCKSTEP_ISA portable
#define LOCKSTEP_ISA_NAME "portable"
#include "worker/kernels/cpu/dot_rows.inc"
#include "worker/kernels/cpu/rows.inc"

namespace lockstep {
namespace {
constexpr auto kCpuKernels = merge(portable::dot_rows(), portable::rows(), kRopeTable);
}

std::span<const KernelEntry> cpu_kernels() { return kCpuKernels; }

std::span<const KernelVariant> amx_variants() { return {}; }

}  // namespace lockstep
