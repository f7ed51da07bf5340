// SPDX-License-Identifier: Apache-2.0
// Where the ranks of one group meet, and wait for one another in every step.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "tests/simulation/machines/world.h"

namespace lockstep::simulation {

class Collective {
 public:
  using Done = std::function<void(const absl::Status&)>;
  // What all ranks have to agree on.
  struct Place {
    int64_t step = 0;
    int checkpoint = 0;  // Of which a rank has its weights; 0: not compared.
    bool operator==(const Place&) const = default;
  };

  Collective(World* world, int ranks, int64_t timeout_ms)
      : world_(*world), ranks_(ranks), timeout_ms_(timeout_ms) {}

  // `done` comes once all ranks are there, or with an error: kUnavailable, a peer's process ended;
  // kAborted, kDeadlineExceeded. A rank that comes to the meeting again takes its old place.
  void meet(int rank, Done done);
  void enter(int rank, const Place& place, Done done);
  // It gives up the meeting: its `done` does not come.
  void withdraw(int rank);
  // A rank's process has ended, which those that have met notice.
  void lose(int rank);
  // On all ranks, now and ever after; not in the meeting.
  void abort();
  // The time of those that wait may be up.
  void check_time();

 private:
  struct Waiter {
    Place place;
    int64_t since = 0;
    Done done;
  };
  void wait(int rank, const Place& place, Done done);
  void fail(absl::Status why, int64_t within_ms);

  World& world_;
  const int ranks_;
  const int64_t timeout_ms_;
  bool met_ = false;
  std::map<int, Waiter> waiters_;
  absl::Status failure_;
};

}  // namespace lockstep::simulation
