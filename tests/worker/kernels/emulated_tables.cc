// SPDX-License-Identifier: Apache-2.0
// Emulated kernels, for instructions that this machine may not have.
#include "base/system/cpu.h"
#include "tests/worker/kernels/run_on_host.h"
#include "tests/worker/kernels/tables.h"
#include "worker/kernels/cpu/emulated/table.h"

namespace lockstep {

std::vector<KernelEntry> kernels_under_test() {
  std::vector<KernelEntry> found(emulated_amx_kernels().begin(), emulated_amx_kernels().end());
  if (machine_runs(Isa::kAvx512Vnni)) {
    found.insert(found.end(), emulated_vnni_kernels().begin(), emulated_vnni_kernels().end());
  }
  return found;
}

void run(const KernelEntry& kernel, KernelArgs args, int threads) {
  run_on_host(kernel, args, threads);
}

bool has_cpu_bits(const KernelEntry& kernel) { return !kernel.own_bits; }

}  // namespace lockstep
