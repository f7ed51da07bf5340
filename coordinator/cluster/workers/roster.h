// SPDX-License-Identifier: Apache-2.0
// Of which workers the next group is made: all that are wanted where there are enough, fewer once
// those that were lost had their time to come back.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "coordinator/cluster/workers/member.h"

namespace lockstep {

// Epochs in a row that a worker may end through its own fault before a group forms without it.
inline constexpr int kMaxFailures = 3;

// What decides beside the workers that joined.
struct RosterRules {
  int workers = 1;                // Ranks that are wanted.
  int min_workers = 1;            // A group of fewer is of no use.
  bool first = false;             // There was no group yet: the first one waits for all.
  bool spares_may_start = false;  // Nobody joined lately: spares complete the first group.
  bool grace_over = false;        // Those that were lost had their time to come back.
  // In which requests were computed: the group computes in it where that can be; "": any will do.
  std::string numeric_class;
  bool class_grace_over = false;       // Workers of that class had their time to come.
  int64_t forgive_before = INT64_MIN;  // Failures of then count no more.
  int too_few = 0;                     // The model does not fit into this many ranks, or fewer.
  std::set<std::set<LinkId>> failed;   // Groups that cannot be, by their members.
};

struct Roster {
  std::vector<LinkId> links;  // By rank; empty: no group yet.
  std::string numeric_class;  // That every rank is to compute in; "": the one common to all.
  std::vector<std::string> kernels = {};  // As Assignment has them; none: not agreed on yet.

  int ranks() const { return static_cast<int>(links.size()); }
};

Roster choose_roster(const Members& members, const RosterRules& rules);

// Whose weights a worker without a rank had better hold, of a group of `ranks`: the rank that it
// asks for; else the one that the fewest others cover. Of several the one that it covers already,
// then one whose worker nobody here starts again, then one on its own host, so that the group stays
// as near together as it was, then the one that takes longest to load.
int choose_cover(const Members& members, const std::vector<LinkId>& ranks, LinkId spare);

}  // namespace lockstep
