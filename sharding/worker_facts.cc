// SPDX-License-Identifier: Apache-2.0
#include "sharding/worker_facts.h"

#include <algorithm>

#include "base/status.h"
#include "proto/validate/validate.h"

namespace lockstep {

absl::Status check_worker_count(int64_t count) {
  if (count >= 1 && count <= kMaxRanks) return absl::OkStatus();
  return invalid_argument("{} workers requested: use --workers 1 to {}", count, kMaxRanks);
}

absl::StatusOr<std::vector<WorkerFacts>> alike_workers(int count) {
  RETURN_IF_ERROR(check_worker_count(count));
  return std::vector<WorkerFacts>(count);
}

absl::StatusOr<std::string> group_class(const std::vector<WorkerFacts>& workers) {
  const WorkerFacts& first = workers.front();
  std::string_view common = first.numeric_class;
  for (size_t rank = 1; rank < workers.size(); ++rank) {
    const WorkerFacts& other = workers[rank];
    const auto both = common_class(common, other.numeric_class);
    if (!both) {
      return failed_precondition(
          "rank 0 ({}) computes in numeric class {}, rank {} ({}) in {}: give all workers the same "
          "--device",
          first.device, first.numeric_class, rank, other.device, other.numeric_class);
    }
    common = *both;
  }
  return std::string(common);
}

bool are_gpus(const std::vector<WorkerFacts>& workers) {
  return std::all_of(workers.begin(), workers.end(),
                     [](const WorkerFacts& worker) { return is_cuda_class(worker.numeric_class); });
}

bool take_rounded_rows(const std::vector<WorkerFacts>& workers) {
  return std::all_of(workers.begin(), workers.end(),
                     [](const WorkerFacts& worker) { return worker.device == "cpu"; });
}

}  // namespace lockstep
