// SPDX-License-Identifier: Apache-2.0
#include "base/system/cpu.h"
#include "tests/worker/kernels/run_on_host.h"
#include "tests/worker/kernels/tables.h"
#include "worker/kernels/find.h"

namespace lockstep {

std::vector<KernelEntry> kernels_under_test() {
  std::vector<KernelEntry> found;
  for (const KernelEntry& entry : cpu_kernels()) {
    if (machine_runs(entry.isa)) found.push_back(entry);
  }
  return found;
}

void run(const KernelEntry& kernel, KernelArgs args, int threads) {
  run_on_host(kernel, args, threads);
}

bool has_cpu_bits(const KernelEntry& kernel) { return !kernel.own_bits; }

}  // namespace lockstep
