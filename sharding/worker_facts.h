// SPDX-License-Identifier: Apache-2.0
// What the compiler knows of the workers that a program is for. Filled from a worker's Hello; the
// defaults are those of a processor that has said nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numbers/numeric_class.h"

namespace lockstep {

struct WorkerFacts {
  std::string device = "cpu";  // As in Hello: "cpu", or "cuda" and the GPU's address.
  std::string isa = "";        // The best instruction set of a processor: "avx512"; "": unknown.
  std::string numeric_class = kCpuClass;  // What its kernels promise.
  int64_t memory_bytes = 0;               // Free for weights and KV pages; 0: unknown.
  // How fast it computes, in a unit that all of them share: a rank's part is cut by it, in eighths
  // of the fastest. All parts are alike where one is 0: not known.
  double speed = 0;

  bool operator==(const WorkerFacts&) const = default;
};

// kInvalidArgument: no group has so many workers, or so few.
absl::Status check_worker_count(int64_t count);

// `count` processors of equal speed, as commands plan for that start no worker.
absl::StatusOr<std::vector<WorkerFacts>> alike_workers(int count);

// The class in which all of them compute, which a group's programs name. kFailedPrecondition names
// two ranks that have none in common.
absl::StatusOr<std::string> group_class(const std::vector<WorkerFacts>& workers);

// Whether all of them compute in a class of GPUs, whose kernels fuse more and may round what they
// give.
bool are_gpus(const std::vector<WorkerFacts>& workers);

// Whether all of them have linears of rows that were rounded before (rounded_rows).
bool take_rounded_rows(const std::vector<WorkerFacts>& workers);

}  // namespace lockstep
