// SPDX-License-Identifier: Apache-2.0
// The twins of kernels whose instructions this machine may not have.
#include "base/system/cpu.h"
#include "tests/worker/kernels/run_on_host.h"
#include "tests/worker/kernels/tables.h"
#include "worker/kernels/cpu/twins/table.h"

namespace lockstep {

std::vector<KernelEntry> kernels_under_test() {
  std::vector<KernelEntry> found(amx_twins().begin(), amx_twins().end());
  if (machine_runs(Isa::kAvx512Vnni)) {
    found.insert(found.end(), avx2_vnni_twins().begin(), avx2_vnni_twins().end());
  }
  return found;
}

void run(const KernelEntry& kernel, KernelArgs args, int threads) {
  run_on_host(kernel, args, threads);
}

bool has_cpu_bits(const KernelEntry& kernel) { return !kernel.own_bits; }

}  // namespace lockstep
