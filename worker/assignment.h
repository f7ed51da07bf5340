// SPDX-License-Identifier: Apache-2.0
// Checks a coordinator's assignment to this worker before any of it is used. Also opens the source
// of weights that the assignment names.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/weight_source.h"
#include "proto/cluster.pb.h"
#include "worker/progress.h"

namespace lockstep {

inline constexpr int64_t kMaxCollectiveTimeoutMs = int64_t{24} * 60 * 60 * 1000;

// Checks what loading weights and counting pages need: the program, then the memory limits.
absl::Status check_load(const cluster::Assignment& assignment);

// First checks the program, because its rank is an index into the other fields. Then checks every
// number, and that ranks of different hosts can connect. Errors are kInvalidArgument or
// kFailedPrecondition, with one line of text.
absl::Status check_assignment(const cluster::Assignment& assignment);

bool spans_hosts(const cluster::Assignment& assignment);

// The host number of each rank. Ranks on the same host have equal numbers.
std::vector<int> hosts_of(const cluster::Assignment& assignment);

// The number of ranks that share this rank's memory: the ranks on the same device of the same host,
// or all ranks if the assignment lacks hosts or devices.
int ranks_here(const cluster::Assignment& assignment);

// Opens the checkpoint's files and reads their headers, but no weights. Reports to `progress`,
// which may be null.
absl::StatusOr<WeightSource> open_source(const cluster::Assignment& assignment, Progress* progress);

// The SHA-256 of WeightSource::stamp() as 64 hexadecimal digits. If two stamps are equal, this
// process reads the same weights from both sources.
absl::StatusOr<std::string> source_stamp(const WeightSource& source);

// Identifies the source of weights at the time when they are loaded. Each field is the SHA-256 of
// the text that WeightSource's function of the same name returns, as 64 hexadecimal digits.
struct SourceMark {
  std::string stamp;       // See source_stamp().
  std::string contents;    // Equal for two processes, on any hosts, that read the same weights.
  std::string written_at;  // The files' modification times; copies may keep them.
};
// Reports to `progress`, which may be null.
absl::StatusOr<SourceMark> source_mark(const WeightSource& source, Progress* progress);

}  // namespace lockstep
