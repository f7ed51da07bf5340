// SPDX-License-Identifier: Apache-2.0
// The device that a rank computes on, and the kernels that take operands on that device.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numbers/numeric_class.h"
#include "base/system/cpu.h"
#include "base/system/isa.h"
#include "worker/kernels/device.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

struct Backend {
  std::unique_ptr<Device> device;
  std::span<const KernelEntry> kernels;
  Isa isa = Isa::kPortable;  // The best instruction set that kernels may require.
  // The numeric class, which defines the bits of the kernels' results. A program names the class
  // that it needs.
  std::string numeric_class = kCpuClass;
  // By default, KV pages take this part of the memory that weights and buffers leave free.
  double memory_fraction = 0.8;
  // Before a worker counts KV pages, it runs one step for each of these numbers of rows: see
  // warm_up(). Empty if the first use of a kernel costs no more than later uses.
  std::vector<int64_t> warm_up_rows = {};
  bool check_each_kernel = false;  // See Executor.
  bool graphs = false;             // See StepGraphs; not together with check_each_kernel.
  // The maximum time in ms for proving linears' kernels before they are used: see proof.h. Unset:
  // no kernel is proven, and the first kernel of the table that fits is used.
  std::optional<int64_t> proof_ms = {};
};

// The CPU that this process runs on.
Backend cpu_backend(Isa isa = best_isa());
// `device` is "cpu" or "cuda:N". GPUs are numbered from 0 among those that this process may see.
// `fast`: the back end computes in the fast numeric class, which CPUs do not have.
absl::StatusOr<Backend> open_backend(const std::string& device, bool fast = false);
// kInvalidArgument if `fast` and one of the devices is a CPU. Names are as for open_backend().
absl::Status check_class(std::span<const std::string> devices, bool fast);

// kFailedPrecondition: this backend cannot compute in the group's numeric class.
absl::Status check_serves(const Backend& backend, const std::string& numeric_class);

// The GPUs, or one line that says why there are none.
struct Gpus {
  std::vector<CudaDeviceInfo> devices;
  std::string problem;
};
Gpus find_gpus();

// Returns devices for open_backend(), one for each of `workers` workers on one host. `wanted` is
// the user's choice: "cpu"; "cuda" (a GPU for each worker); "cuda:N" (one GPU for all workers);
// "auto" (like "cuda" if there are enough GPUs, else "cpu"). Errors, kInvalidArgument or
// kFailedPrecondition, name the choice and the GPUs.
absl::StatusOr<std::vector<std::string>> devices_of_workers(const std::string& wanted, int workers,
                                                            const Gpus& gpus);

}  // namespace lockstep
