// SPDX-License-Identifier: Apache-2.0
// Decides when the next group may have fewer ranks, and when a smaller group is formed again to
// have more. A state machine and a part of ClusterCore.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "coordinator/cluster/cluster_options.h"
#include "coordinator/cluster/group.h"
#include "coordinator/cluster/workers/roster.h"

namespace lockstep {

inline constexpr int kMaxGraces = 3;  // Between two groups; a worker may die each time it loads.

// One thread at a time; `now` is ClusterCore's.
class Regroup {
 public:
  // `options` outlives this object.
  explicit Regroup(const ClusterCoreOptions* options) : options_(*options) {}

  // ---- Events ----
  // A worker sent Hello.
  void joined(int64_t now);
  // A worker that had a rank is gone. The next group waits grace_ms for it to return, unless the
  // last group was ended to form a larger one, or kMaxGraces workers were lost since it formed.
  void left(int64_t now);
  void wanted(int64_t now, const GroupRequirements& requirements);
  // A group of these `links` cannot be compiled, or one of its ranks could not load. If the group
  // had the number of ranks of begin_growth(), the same workers are not tried again for regrow_ms.
  // If it had another number of ranks below the full one, they are not tried again for regrow_ms or
  // 6 s, whichever is longer. But if too little memory was the reason, no group of as many ranks or
  // fewer is tried in this time, unless a worker joins.
  void failed(int64_t now, const std::vector<LinkId>& links, absl::StatusCode code);
  void formed(int64_t now, int ranks);
  // The formed group is over.
  void group_lost(int64_t now);
  // The group was ended to form one of `ranks` ranks.
  void begin_growth(int64_t now, int ranks);
  void note_demand(Demand demand) { demand_ = demand; }

  // ---- Decisions ----
  // The rules for the next group.
  RosterRules rules(int64_t now) const;
  // The better number of ranks for a formed group of `links` that computes in `numeric_class`; 0:
  // the group stays as it is.
  int growth(int64_t now, const Members& members, const std::vector<LinkId>& links,
             const std::string& numeric_class) const;

 private:
  bool idle() const { return demand_ != Demand::kRuns; }
  int64_t forgiven(int64_t now) const;

  const ClusterCoreOptions& options_;
  bool formed_once_ = false;
  std::string numeric_class_;  // Requested by the owner.
  int64_t wanted_at_ = 0;
  int64_t joined_at_ = 0;  // When the last worker joined.
  int64_t grace_until_ = INT64_MIN;
  int graces_ = 0;  // Since the last group.
  int too_few_ = 0;
  std::set<std::set<LinkId>> failed_;
  int64_t forget_at_ = INT64_MAX;  // When too_few_ and failed_ no longer count.
  Demand demand_ = Demand::kNone;  // The last note_demand().
  int growing_to_ = 0;
  int64_t ignore_failures_before_ = INT64_MIN;  // Set while the group grows.
  int64_t grown_at_ = INT64_MIN;                // When a larger group than before was formed.
  int64_t grow_at_ = INT64_MIN;                 // No growth before this time.
};

}  // namespace lockstep
