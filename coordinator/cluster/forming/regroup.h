// SPDX-License-Identifier: Apache-2.0
// When the next group may have fewer ranks than are wanted, and when a group of fewer is formed
// anew to have more. A state machine as ClusterCore, whose part it is.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "coordinator/cluster/cluster_options.h"
#include "coordinator/cluster/group.h"
#include "coordinator/cluster/workers/roster.h"

namespace lockstep {

inline constexpr int kMaxGraces = 3;  // Between two groups: workers that die as they load.

// One thread at a time; `now` as of ClusterCore.
class Regroup {
 public:
  // `options` outlives it.
  explicit Regroup(const ClusterCoreOptions* options) : options_(*options) {}

  // ---- What happens ----
  // A worker said Hello.
  void joined(int64_t now);
  // A worker that was in a group is gone. It has the grace to come back, unless it was to make the
  // group larger, or many were lost since the last group.
  void left(int64_t now);
  void wanted(int64_t now, const GroupWish& wish);
  // A group of fewer ranks than are wanted cannot be compiled, or one of its ranks could not load.
  // It is not tried again until another worker joins, or regrow_ms have passed, 6 s at least.
  void failed(int64_t now, const std::vector<LinkId>& links, absl::StatusCode code);
  void formed(int64_t now, int ranks);
  // The group that was formed is over.
  void group_lost(int64_t now);
  // The group was ended to have `ranks` instead.
  void grows(int64_t now, int ranks);
  void note_demand(Demand demand) { demand_ = demand; }

  // ---- What follows ----
  // For the next group.
  RosterRules rules(int64_t now) const;
  // How many ranks a formed group of `links`, which computes in `numeric_class`, should rather
  // have; 0: it stays as it is.
  int growth(int64_t now, const Members& members, const std::vector<LinkId>& links,
             const std::string& numeric_class) const;

 private:
  bool idle() const { return demand_ != Demand::kRuns; }
  int64_t forgiven(int64_t now) const;

  const ClusterCoreOptions& options_;
  bool formed_once_ = false;
  std::string numeric_class_;  // Wished for.
  int64_t wanted_at_ = 0;
  int64_t joined_at_ = 0;  // The last one.
  int64_t grace_until_ = INT64_MIN;
  int graces_ = 0;  // Since the last group.
  int too_few_ = 0;
  std::set<std::set<LinkId>> failed_;
  int64_t forget_at_ = INT64_MAX;  // What failed.
  Demand demand_ = Demand::kNone;  // Of the owner.
  int growing_to_ = 0;
  int64_t forgive_before_ = INT64_MIN;  // While it grows.
  int64_t grown_at_ = INT64_MIN;        // A group formed that was larger than the one before.
  int64_t grow_at_ = INT64_MIN;         // Not before.
};

}  // namespace lockstep
