// SPDX-License-Identifier: Apache-2.0
// How the ranks of one host find one another: on a Unix socket in a folder that is their user's
// alone. Rank 0 listens, knows each caller by user, token, rank and epoch, and when all have come
// hands them a sealed memfd.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/collectives/collective.h"
#include "worker/collectives/shared_memory.h"

namespace lockstep {

struct MeetArgs {
  int rank = 0;
  int ranks = 1;  // At most kMaxRegionRanks.
  uint64_t epoch = 0;
  std::string group = {};    // Random, known to the group: 8 to 64 of [0-9a-z-].
  std::string token = {};    // The secret by which ranks know one another: 1 to 256 bytes.
  int64_t shared_bytes = 0;  // Of the collective's shared(); the same for all ranks.
  std::chrono::milliseconds timeout{30'000};  // Of the whole meeting.
  std::chrono::nanoseconds collective_timeout = kCollectiveTimeout;
  // If it turns true the meeting ends within about 50 ms, with kCancelled.
  const std::atomic<bool>* cancelled = nullptr;
  // Where the socket lies. Empty: $XDG_RUNTIME_DIR/lockstep, else /tmp/lockstep-<uid>.
  std::string folder = {};
};

// Returns on every rank once all are there. Ranks may come in any order; one that died in the
// meeting may come again. kPermissionDenied, kInvalidArgument, kAlreadyExists: rank 0 refused this
// rank (wrong token; no such rank; the rank is there already), and the others go on meeting.
// kDeadlineExceeded names the ranks that did not come. kFailedPrecondition, kResourceExhausted:
// this machine gives no folder, socket or memory. Where the meeting fails, TCP is left.
absl::StatusOr<std::unique_ptr<Collective>> meet_in_shared_memory(const MeetArgs& args);

}  // namespace lockstep
