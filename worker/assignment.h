// SPDX-License-Identifier: Apache-2.0
// What a coordinator assigns to this worker: checked before anything of it is used, and the source
// of weights that it names.
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

// What weights are loaded and pages are counted by: the program, then limits of memory.
absl::Status check_load(const cluster::Assignment& assignment);

// The program first, since its rank is an index into the rest; then every number, and that ranks of
// different hosts can meet. kInvalidArgument or kFailedPrecondition, one line.
absl::Status check_assignment(const cluster::Assignment& assignment);

bool spans_hosts(const cluster::Assignment& assignment);

// Of each rank a number, equal for ranks of one host.
std::vector<int> hosts_of(const cluster::Assignment& assignment);

// Ranks that share this one's memory: those on its host's same device, or all where that is not
// told.
int ranks_here(const cluster::Assignment& assignment);

// Opens the checkpoint's files and reads their headers, no weights. Shows `progress` meanwhile,
// which may be null.
absl::StatusOr<WeightSource> open_source(const cluster::Assignment& assignment, Progress* progress);

// WeightSource::stamp as 64 hexadecimal digits: whether this process would read again what it read.
absl::StatusOr<std::string> source_stamp(const WeightSource& source);

// What is known of the weights' source when they are loaded: as of WeightSource, each as 64
// hexadecimal digits.
struct SourceMark {
  std::string stamp;       // See source_stamp().
  std::string contents;    // Whether two processes read the same weights, on whatever hosts.
  std::string written_at;  // Whether two processes of a host did, at whatever times.
};
// Shows `progress` as above.
absl::StatusOr<SourceMark> source_mark(const WeightSource& source, Progress* progress);

}  // namespace lockstep
