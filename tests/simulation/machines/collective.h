// SPDX-License-Identifier: Apache-2.0
// The collectives of one group: its ranks connect once, in meet(), and then wait for one another in
// every step, in enter().
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
  // The values on which all ranks must agree.
  struct Place {
    int64_t step = 0;
    int checkpoint = 0;  // The checkpoint of a rank's weights; 0: not compared.
    bool operator==(const Place&) const = default;
  };

  Collective(World* world, int ranks, int64_t timeout_ms)
      : world_(*world), ranks_(ranks), timeout_ms_(timeout_ms) {}

  // `done` is called when all ranks have made the same call, or with an error: kUnavailable (a
  // peer's process ended), kAborted or kDeadlineExceeded. A rank's second call of meet() replaces
  // its first one.
  void meet(int rank, Done done);
  void enter(int rank, const Place& place, Done done);
  // The rank withdraws its call of meet(): its `done` is not called.
  void withdraw(int rank);
  // A rank's process has ended. The other ranks notice it if all had met.
  void lose(int rank);
  // Fails all waiting ranks and all later calls of enter(). No effect before all ranks have met.
  void abort();
  // Fails the ranks that have waited for too long.
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
