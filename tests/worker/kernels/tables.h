// SPDX-License-Identifier: Apache-2.0
// Which kernels a program of tests is about, and where they run. The same tests are built three
// times: with cpu_tables.cc for the CPU's, with emulated_tables.cc for those of its instructions
// that replace others, with cuda_tables.cc for those of .cu files.
#pragma once

#include <vector>

#include "worker/kernels/kernel.h"

namespace lockstep {

// Those that can run here, best first.
std::vector<KernelEntry> kernels_under_test();

// Runs one of them, or a reference in its place, on operands in the host's memory.
void run(const KernelEntry& kernel, KernelArgs args, int threads = 1);

// Whether a kernel promises the bits of the portable CPU kernel.
bool has_cpu_bits(const KernelEntry& kernel);

}  // namespace lockstep
