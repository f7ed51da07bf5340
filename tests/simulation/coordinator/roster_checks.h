// SPDX-License-Identifier: Apache-2.0
// Checks from outside how ClusterCore chooses the workers of a group: fewer ranks only after a lost
// worker's grace period, spares only if they are needed, no growing in a loop.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "tests/simulation/machines/machine.h"

namespace lockstep::simulation {

class RosterChecks {
 public:
  explicit RosterChecks(Host* host) : host_(*host) {}

  // ---- Streams, as the core sees them ----
  void joined(const Link& link) { now_.joined.insert(&link); }
  void gone(const Link& link);
  // preloads(): a worker without a rank is asked to preload a rank's weights. preloaded(): its
  // answer.
  void preloads(const Link& link, const cluster::CoordinatorMessage& message);
  void preloaded(const Link& link, const cluster::WorkerMessage& message);

  // ---- Epochs ----
  void assigned(const std::vector<const Link*>& ranks);
  void formed();
  // The group ends so that a larger one can be formed.
  void grows();
  // A new core started.
  void restarted() { now_ = {}; }

  int64_t smaller() const { return smaller_; }
  int64_t grown() const { return grown_; }
  int64_t spares() const { return spares_; }
  int64_t covered() const { return covered_; }

 private:
  struct Cover {
    uint64_t epoch = 0;
    int rank = -1;
    bool holds = false;
  };
  struct Now {
    std::set<const Link*> joined;
    std::set<const Link*> used;           // The workers that had a rank in any epoch.
    std::map<const Link*, Cover> covers;  // The ranks that workers without a rank cover.
    std::vector<const Link*> ranks;       // The ranks of the last epoch, in order.
    bool formed_once = false;
    int gone = 0;          // Workers in `used` that left since the last group.
    int64_t gone_at = -1;  // The last time that one of `ranks` left; -1: none left.
    bool growing = false;
    int ranks_before = 0;
    int64_t grew_at = -1;
    std::set<const Link*> grew_with;  // The workers that had joined at grew_at.
  };
  void check_smaller() const;
  void check_survivors(const std::vector<const Link*>& ranks) const;
  void check_covers();
  // The number of joined workers without a fault.
  int64_t sound() const;
  bool is_idle_spare(const Link* link) const;

  Host& host_;
  Now now_;
  int64_t smaller_ = 0;
  int64_t grown_ = 0;
  int64_t spares_ = 0;   // The number of spares that replaced a lost rank,
  int64_t covered_ = 0;  // and of those that also had its weights.
};

}  // namespace lockstep::simulation
