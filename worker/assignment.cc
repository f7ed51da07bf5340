// SPDX-License-Identifier: Apache-2.0
// Numbers that are added up are bounded here, so that no sum overflows. The other numbers are
// bounded later, by the memory that is free.
#include "worker/assignment.h"

#include <algorithm>
#include <limits>

#include "base/status.h"
#include "proto/handshake.h"
#include "proto/validate/validate.h"
#include "worker/weights/weights_key.h"

namespace lockstep {
namespace {

absl::Status check_range(const char* name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return invalid_argument("assignment: {} must be {} to {}, found {}", name, min, max, value);
}

absl::Status check_count(const char* name, int found, int ranks) {
  if (found == ranks) return absl::OkStatus();
  return invalid_argument("assignment: {} must be given for each of the {} ranks, found {}", name,
                          ranks, found);
}

// If there are several hosts, checks that ranks have what they need to reach each other.
absl::Status check_hosts(const cluster::Assignment& assignment) {
  const int ranks = assignment.program().ranks();
  if (!spans_hosts(assignment)) return absl::OkStatus();
  RETURN_IF_ERROR(check_count("the data address", assignment.data_addresses_size(), ranks));
  for (int other = 0; other < ranks; ++other) {
    if (!assignment.data_addresses(other).empty()) continue;
    return failed_precondition(
        "rank {} and its peers are on different hosts, but it has no data port: start it with "
        "--data-listen ADDRESS:PORT and --cluster-cert or --insecure cluster",
        other);
  }
  if (assignment.data_key().size() == kNonceBytes) return absl::OkStatus();
  return invalid_argument("assignment: data_key must have {} bytes, found {}", kNonceBytes,
                          assignment.data_key().size());
}

ProgressCallback sign_on(Progress* progress) {
  return [progress] {
    if (progress != nullptr) progress->add_load(1);
  };
}

}  // namespace

absl::Status check_load(const cluster::Assignment& assignment) {
  RETURN_IF_ERROR(validate(assignment.program()));
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  RETURN_IF_ERROR(check_range("kv_memory_bytes", assignment.kv_memory_bytes(), 0, kAny));
  return check_range("max_pages", assignment.max_pages(), 0, kAny);
}

absl::Status check_assignment(const cluster::Assignment& assignment) {
  RETURN_IF_ERROR(check_load(assignment));
  const int ranks = assignment.program().ranks();
  RETURN_IF_ERROR(check_count("the host", assignment.hosts_size(), ranks));
  RETURN_IF_ERROR(check_count("the device", assignment.devices_size(), ranks));
  RETURN_IF_ERROR(check_range("loading_here", assignment.loading_here(), 0, ranks));
  RETURN_IF_ERROR(check_range("collective_timeout_ms", assignment.collective_timeout_ms(), 1,
                              kMaxCollectiveTimeoutMs));
  return check_hosts(assignment);
}

bool spans_hosts(const cluster::Assignment& assignment) {
  return std::ranges::any_of(assignment.hosts(),
                             [&](const std::string& host) { return host != assignment.hosts(0); });
}

std::vector<int> hosts_of(const cluster::Assignment& assignment) {
  std::vector<int> hosts;
  for (const std::string& host : assignment.hosts()) {
    hosts.push_back(
        static_cast<int>(std::ranges::find(assignment.hosts(), host) - assignment.hosts().begin()));
  }
  return hosts;
}

int ranks_here(const cluster::Assignment& assignment) {
  const int rank = assignment.program().rank(), ranks = assignment.program().ranks();
  if (assignment.hosts_size() != ranks || assignment.devices_size() != ranks) return ranks;
  int count = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    count += assignment.hosts(peer) == assignment.hosts(rank) &&
             assignment.devices(peer) == assignment.devices(rank);
  }
  return count;
}

absl::StatusOr<WeightSource> open_source(const cluster::Assignment& assignment,
                                         Progress* progress) {
  if (assignment.random_weights()) return WeightSource(RandomWeights(assignment.random_seed()));
  ASSIGN_OR_RETURN(Checkpoint checkpoint,
                   Checkpoint::open(assignment.checkpoint(), sign_on(progress)));
  return WeightSource(std::move(checkpoint));
}

absl::StatusOr<std::string> source_stamp(const WeightSource& source) {
  ASSIGN_OR_RETURN(const std::string stamp, source.stamp());
  return sha256(stamp);
}

absl::StatusOr<SourceMark> source_mark(const WeightSource& source, Progress* progress) {
  SourceMark mark;
  ASSIGN_OR_RETURN(mark.stamp, source_stamp(source));
  ASSIGN_OR_RETURN(const std::string contents, source.contents(sign_on(progress)));
  ASSIGN_OR_RETURN(const std::string written_at, source.written_at());
  mark.contents = sha256(contents);
  mark.written_at = sha256(written_at);
  return mark;
}

}  // namespace lockstep
