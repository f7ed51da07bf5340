// SPDX-License-Identifier: Apache-2.0
// Facts about a worker, from its Hello, that the compiler needs. The defaults describe a processor
// about which nothing else is known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numbers/numeric_class.h"

namespace lockstep {

struct WorkerFacts {
  std::string device = "cpu";  // Hello.device: "cpu", or "cuda" and the GPU's address.
  std::string isa = "";        // The best instruction set of a processor: "avx512"; "": unknown.
  std::string numeric_class = kCpuClass;  // The class of its kernels.
  int64_t memory_bytes = 0;               // Free for weights and KV pages; 0: unknown.
  // The worker's speed, in a unit that all workers share. The size of a rank's part depends on its
  // speed in eighths of the fastest. If any speed is 0 (unknown), all parts are equal.
  double speed = 0;

  bool operator==(const WorkerFacts&) const = default;
};

// kInvalidArgument: too few or too many workers for a group.
absl::Status check_worker_count(int64_t count);

// `count` processors of equal speed, for commands that plan without starting workers.
absl::StatusOr<std::vector<WorkerFacts>> alike_workers(int count);

// The numeric class in which all these workers can compute, for a group's programs.
// kFailedPrecondition names two ranks without a common class.
absl::StatusOr<std::string> group_class(const std::vector<WorkerFacts>& workers);

// Whether all these workers compute in a GPU class, in which kernels fuse more and may round
// results.
bool are_gpus(const std::vector<WorkerFacts>& workers);

// Whether all these workers have linears that accept rows rounded in advance (rounded_rows).
bool take_rounded_rows(const std::vector<WorkerFacts>& workers);

}  // namespace lockstep
