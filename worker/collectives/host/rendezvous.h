// SPDX-License-Identifier: Apache-2.0
// How the ranks of one host meet: on a Unix socket without a file, whose name only the group can
// guess. The first of them (rank 0, if the group is on one host) listens, and verifies each peer's
// user, secret, rank and epoch. When all ranks have come, it sends them a sealed memfd.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collectives/collective.h"
#include "worker/collectives/host/region.h"
#include "worker/collectives/host/shared_memory.h"

namespace lockstep {

struct MeetArgs {
  int rank = 0;
  int ranks = 1;  // Ranks of the group, at most kMaxRegionRanks.
  // The ranks of this host, ascending, including `rank`. Empty: all ranks are on this host.
  std::vector<int> here = {};
  uint64_t epoch = 0;
  std::string group = {};    // Random, known to the group: 8 to 64 of [0-9a-z-].
  std::string secret = {};   // Ranks prove with it that they are of the group: 1 to 256 bytes.
  int64_t shared_bytes = 0;  // Size of the collective's shared(); the same for all ranks.
  std::chrono::milliseconds timeout{30'000};  // For the whole meeting.
  std::chrono::nanoseconds collective_timeout = kCollectiveTimeout;
  // If it turns true the meeting ends with kCancelled, within about 50 ms.
  const std::atomic<bool>* cancelled = nullptr;
  // The clock for `timeout`.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

// Returns on every rank when all have come. Ranks may come in any order; a rank that died in the
// meeting may come again with a new process. The first rank may refuse this one, and the others
// then continue: kPermissionDenied (wrong secret), kInvalidArgument (no such rank), kAlreadyExists
// (the rank is there already). kDeadlineExceeded names the ranks that did not come.
// kFailedPrecondition, kResourceExhausted: this machine gives no socket or memory.
absl::StatusOr<std::unique_ptr<Collective>> meet_in_shared_memory(const MeetArgs& args);

// Only the ranks of this host meet; otherwise like meet_in_shared_memory(). Returns the memory that
// they now share.
absl::StatusOr<std::shared_ptr<Region>> meet_on_host(const MeetArgs& args);

}  // namespace lockstep
