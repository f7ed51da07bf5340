// SPDX-License-Identifier: Apache-2.0
// One worker that has opened a stream, as ClusterCore knows it, and which of them form a group.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cluster/cluster_actions.h"
#include "coordinator/cluster/workers/worker_state.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// What a worker without a rank holds in memory, for when that rank is lost.
struct Cover {
  enum class State { kNone, kLoads, kHolds, kFailed };
  State state = State::kNone;
  int rank = -1;        // kLoads, kHolds.
  uint64_t epoch = 0;   // Of the group for which it was told.
  int64_t since = 0;    // It holds weights of that rank; 0: not yet.
  std::string failure;  // The last one, so that it is logged once.
};

struct Member {
  LinkId link = 0;
  int64_t opened_at = 0;
  int64_t joined_at = 0;                // When it said Hello.
  std::optional<cluster::Hello> hello;  // It has joined. Nothing else is known before.
  int64_t heard_at = 0;                 // When its last message came, of any kind.

  bool own = false;     // It was started here, and is started again when it is lost.
  bool known = false;   // It is our own, or was in a group.
  uint64_t served = 0;  // The epoch of the last group that was formed with it; 0: none was.
  int last_rank = -1;   // In its last epoch: it gets that one again if it can, and keeps weights.
  bool loaded = false;  // It has weights in memory.
  int64_t weight_bytes = 0;  // Once it has loaded.
  int failures = 0;          // Epochs in a row that ended through its fault: others are preferred.
  int64_t failed_at = 0;     // The last one.

  // Of the current epoch, from its heartbeats.
  uint64_t progress = 0;
  // When `progress` last changed, a wait for a peer ended, an answer came, or work began.
  int64_t progress_at = 0;
  bool waiting = false;  // For a peer.

  Cover cover;  // While it has no rank.
};

using Members = std::map<LinkId, Member>;  // In the order in which they came.

// It came to take the place of one that is lost, and did not have to yet.
inline bool is_idle_spare(const Member& member) {
  return member.hello.has_value() && member.hello->spare() && member.last_rank < 0;
}

// Of one that has joined; whether it has a rank is not known here.
WorkerState state_of(const Member& member, int64_t now);

// "rank 1 (pid 33)", or "a worker (pid 33)" where rank is negative.
std::string name_of(int rank, const Member& member);

// Why a worker cannot be in one group with another, as a clause about it; "": it can.
std::string why_incompatible(const cluster::Hello& hello, const cluster::Hello& peer);

// Of the sets of workers that can be in one group the one with the most known workers, then the
// largest, then the one whose first came first; in the order in which they came.
std::vector<LinkId> choose_compatible(const Members& members);

// One of `candidates` for each of `ranks` ranks; there are that many or more. Those that failed
// less go first, then those that are no idle spares, then spares that hold a rank's weights. Then
// whoever asks for a rank, or covers it, or had it before, gets it, the newest if there are
// several, since a restarted worker replaces its predecessor; the others fill what is left.
std::vector<LinkId> choose_ranks(const Members& members, const std::vector<LinkId>& candidates,
                                 int ranks);

// Of the ranks that `owe` an answer the one that holds up the others, if it has made no progress
// for `stuck_ms`; -1: none. That is the least advanced of those that do not wait for a peer; if
// all wait, of all, and then none of the group may have made progress.
int find_stuck(const std::vector<const Member*>& ranks, const std::vector<bool>& owe, int64_t now,
               int64_t stuck_ms);

}  // namespace lockstep
