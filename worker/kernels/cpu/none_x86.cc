// SPDX-License-Identifier: Apache-2.0
// The table in place of table.cc on a machine that is no x86: the portable kernels alone.
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

}  // namespace lockstep
