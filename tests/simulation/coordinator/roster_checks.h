// SPDX-License-Identifier: Apache-2.0
// Which workers ClusterCore makes groups of, checked from outside: fewer ranks only if a worker is
// missing and had its time to come back, spares only if they are needed, and no growing in a loop.
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
  // A worker without a rank is asked to hold a rank's weights, and answers.
  void preloads(const Link& link, const cluster::CoordinatorMessage& message);
  void preloaded(const Link& link, const cluster::WorkerMessage& message);

  // ---- Epochs ----
  void assigned(const std::vector<const Link*>& ranks);
  void formed();
  // The group ends in order to be larger.
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
    std::set<const Link*> used;           // In any epoch.
    std::map<const Link*, Cover> covers;  // The workers without a rank.
    std::vector<const Link*> ranks;       // The last epoch's.
    bool formed_once = false;
    int gone = 0;          // Used workers that left since the last group.
    int64_t gone_at = -1;  // When one of `ranks` left last.
    bool growing = false;
    int ranks_before = 0;
    int64_t grew_at = -1;
    std::set<const Link*> grew_with;  // The workers of that time.
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
  int64_t spares_ = 0;   // Spares that took a lost rank's place,
  int64_t covered_ = 0;  // and had its weights.
};

}  // namespace lockstep::simulation
