// SPDX-License-Identifier: Apache-2.0
// The choice of workers for the next group: the full number if there are enough, else fewer, after
// lost workers had their time to return.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "coordinator/cluster/workers/member.h"

namespace lockstep {

// After this many failures in a row, a group forms without the worker.
inline constexpr int kMaxFailures = 3;

// The conditions of a choice, in addition to the workers that joined.
struct RosterRules {
  int workers = 1;                // The full number of ranks.
  int min_workers = 1;            // The min ranks of a group after the first one.
  bool first = false;             // There was no group yet: the first one waits for all.
  bool spares_may_start = false;  // Spares may complete the first group: none joined recently.
  bool grace_over = false;        // Lost workers had their time to return.
  // The class of running requests, used for the group if possible; "": any.
  std::string numeric_class;
  bool class_grace_over = false;               // Workers of that class had their time to return.
  int64_t ignore_failures_before = INT64_MIN;  // Failures before this no longer count.
  int too_few = 0;                             // The model does not fit this many ranks, or fewer.
  std::set<std::set<LinkId>> failed;           // Groups that failed, by their members.
};

struct Roster {
  std::vector<LinkId> links;              // By rank; empty: no group yet.
  std::string numeric_class;              // The class of all ranks; "": one that all support.
  std::vector<std::string> kernels = {};  // See Assignment; empty: not agreed yet.

  int ranks() const { return static_cast<int>(links.size()); }
};

Roster choose_roster(const Members& members, const RosterRules& rules);

// The rank whose weights `spare`, a worker without a rank, should hold. If `spare` was started as a
// spare and requests a rank, the result is that rank. Else the choice prefers, in this order: the
// rank that the fewest others cover; the one that `spare` covers already; one whose worker this
// process does not restart; one whose worker is on the host of `spare`; the one with the most
// weights.
int choose_cover(const Members& members, const std::vector<LinkId>& ranks, LinkId spare);

}  // namespace lockstep
