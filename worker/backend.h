// SPDX-License-Identifier: Apache-2.0
// What a rank computes on: a device, and the table of kernels whose operands are there.
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
  Isa isa = Isa::kPortable;  // The best that kernels may ask for.
  // What the kernels' bits are promised to be: the program says which it wants.
  std::string numeric_class = kCpuClass;
  // Share of the memory beside weights and buffers that KV pages take, unless told otherwise.
  double memory_fraction = 0.8;
  // Rows of steps that a worker runs before it counts pages: see warm_up(). None: the first use of
  // a kernel costs nothing.
  std::vector<int64_t> warm_up_rows = {};
  bool check_each_kernel = false;  // See Executor.
  bool graphs = false;             // Likewise; not with the other.
  // Linears' kernels are proven before they serve, for so long at most: see proof.h. Nothing: the
  // table's first serves.
  std::optional<int64_t> proof_ms = {};
};

// This processor.
Backend cpu_backend(Isa isa = best_isa());
// "cpu", or "cuda:N", the N-th GPU that this process may see. `fast`: in its fast numeric class,
// which processors do not have.
absl::StatusOr<Backend> open_backend(const std::string& device, bool fast = false);
// kInvalidArgument: a class that these devices, as open_backend() takes them, do not have.
absl::Status check_class(std::span<const std::string> devices, bool fast);

// kFailedPrecondition: a group's numeric class is none in which this backend computes.
absl::Status check_serves(const Backend& backend, const std::string& numeric_class);

// GPUs, or in one line why there are none.
struct Gpus {
  std::vector<CudaDeviceInfo> devices;
  std::string problem;
};
Gpus find_gpus();

// What open_backend() takes, for each of `workers` workers on one host, from what a user says:
// "cpu"; "cuda", a GPU for each; "cuda:N", one GPU for all; "auto", "cuda" where there are GPUs
// enough, else "cpu". kInvalidArgument, kFailedPrecondition: what was said, what is there.
absl::StatusOr<std::vector<std::string>> devices_of_workers(const std::string& wanted, int workers,
                                                            const Gpus& gpus);

}  // namespace lockstep
