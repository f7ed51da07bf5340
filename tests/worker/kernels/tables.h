// SPDX-License-Identifier: Apache-2.0
// The kernels under test, and how they run. The same tests are built three times: with
// cpu_tables.cc for the CPU's kernels, with emulated_tables.cc for emulated kernels that this
// machine may not run, and with cuda_tables.cc for the kernels of .cu files.
#pragma once

#include <vector>

#include "worker/kernels/kernel.h"

namespace lockstep {

// The kernels that can run here, best first.
std::vector<KernelEntry> kernels_under_test();

// Runs a kernel, or a reference in its place, on operands in the host's memory.
void run(const KernelEntry& kernel, KernelArgs args, int threads = 1);

// True if a kernel promises the bits of the portable CPU kernel.
bool has_cpu_bits(const KernelEntry& kernel);

}  // namespace lockstep
