// SPDX-License-Identifier: Apache-2.0
// ClusterCore's record of a worker that has opened a stream, and the choice of a group's workers.
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

// A rank's weights, which a worker without a rank preloads in case that rank is lost.
struct Cover {
  enum class State { kNone, kLoads, kHolds, kFailed };
  State state = State::kNone;
  int rank = -1;        // kLoads, kHolds.
  uint64_t epoch = 0;   // The epoch of the preload.
  int64_t since = 0;    // When the weights were loaded; 0: not yet.
  std::string failure;  // The last failure, so that it is logged only once.
};

struct Member {
  LinkId link = 0;
  int64_t opened_at = 0;
  int64_t joined_at = 0;                // When its Hello arrived.
  std::optional<cluster::Hello> hello;  // Null until it joins: nothing else is known before.
  int64_t received_at = 0;              // When its last message of any kind arrived.

  bool own = false;     // It was started here, and is restarted when lost.
  bool known = false;   // It is our own, or was in a group.
  uint64_t served = 0;  // The epoch of the last formed group with it; 0: none.
  // The rank in its last epoch. It gets this rank again if possible, and may still have the
  // weights.
  int last_rank = -1;
  int last_ranks = 0;        // The number of ranks of the newest epoch; 0: it had no rank in it.
  bool loaded = false;       // It has weights in memory.
  int64_t weight_bytes = 0;  // Set after loading.
  int failures = 0;          // Epochs in a row that failed through its fault.
  int64_t failed_at = 0;     // When the last of them failed.

  // The progress that its last heartbeat of the current epoch reported.
  uint64_t progress = 0;
  // When `progress` last changed, a wait for a peer ended, an answer arrived, or work began.
  int64_t progress_at = 0;
  bool waiting = false;  // For a peer.

  Cover cover;  // While it has no rank.
};

using Members = std::map<LinkId, Member>;  // In the order of arrival.

// Whether the worker joined to replace a lost one, and has not been needed yet.
inline bool is_idle_spare(const Member& member) {
  return member.hello.has_value() && member.hello->spare() && member.last_rank < 0;
}

// The state of a member that has joined, without its rank.
WorkerState state_of(const Member& member, int64_t now);

// "rank 1 (pid 33)", or "a worker (pid 33)" if rank is negative.
std::string name_of(int rank, const Member& member);

// Why the worker of `hello` cannot be in one group with the worker of `peer`; "": it can. The
// reason is a clause whose subject is the worker of `hello`.
std::string why_incompatible(const cluster::Hello& hello, const cluster::Hello& peer);

// The best set of workers that can be in one group: the set with the most known workers; of these
// sets, the largest; of these, the one with the oldest worker. Workers are in the order of arrival.
std::vector<LinkId> choose_compatible(const Members& members);

// Chooses one of `candidates` for each of `ranks` ranks; there must be enough. The choice
// prefers, in this order: workers with fewer failures; workers that are no idle spares; workers
// that had a rank in an equally large group; workers that hold a rank's weights. A worker may claim
// a rank: the one that it had, else the one whose weights it holds, else the one that it requests.
// If several workers that are equal in this order claim a rank, the newest gets it. A restarted
// worker replaces its predecessor, whose stream may still be open: if both request the same rank,
// the older one has no claim to it. Workers without a claim fill the remaining ranks.
std::vector<LinkId> choose_ranks(const Members& members, const std::vector<LinkId>& candidates,
                                 int ranks);

// Returns the rank that blocks the others, if it made no progress for `stuck_ms`; -1: none. Only an
// `unanswered` rank can block: of those that wait for no peer, the one with the least progress. If
// all wait, it is the one with the least progress, but only if no rank of the group made progress
// in that time.
int find_stuck(const std::vector<const Member*>& ranks, const std::vector<bool>& unanswered,
               int64_t now, int64_t stuck_ms);

}  // namespace lockstep
