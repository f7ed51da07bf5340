// SPDX-License-Identifier: Apache-2.0
// How ranks wait for one another in a region: arrive, then wait until all have arrived as often.
// Spins briefly, then sleeps on a futex; every way in which a group can end wakes the sleepers.
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "worker/collectives/host/region.h"

namespace lockstep {

// One rank's side, by its place on this host. arrive() and wait() belong to one thread; fail() and
// failure() to any. What a rank wrote before arrive() is seen by the others after their wait(). The
// region outlives it.
class Barrier {
 public:
  using Clock = std::chrono::steady_clock;

  Barrier(RegionHeader& region, int rank);

  // This rank's in the group.
  int64_t number() const { return region_.numbers[rank_]; }

  // One store where nobody sleeps, one system call where somebody does.
  void arrive();

  // OK once all ranks have arrived as often as this one, even where the group has ended since.
  // kAborted, kUnavailable (a rank is gone or has left), kDeadlineExceeded or kInternal (the ranks'
  // calls did not match) otherwise; the message names the ranks. A lost peer is noticed within
  // 50 ms. Adds what it waited to *wait_ns.
  absl::Status wait(Clock::time_point deadline, int64_t* wait_ns);

  // Ends the group on all ranks of this host; names a rank by its number in the group. The first
  // cause wins. Async-signal-safe.
  void fail(Failure failure, int64_t number);

  // OK while the group has not ended.
  absl::Status failure() const;
  // Why it has, for ranks of other hosts; what concerns ranks here alone is an abort to them.
  Goodbye goodbye() const;

  // Peers that come to wait for this rank need not wait any longer.
  void leave();

 private:
  bool all_arrived() const;
  bool worth_spinning() const;
  absl::Status sleep(Clock::time_point deadline);
  absl::Status failure_status(uint32_t word) const;
  void check_peers();
  void ring();

  RegionHeader& region_;
  const int rank_;
  uint64_t sequence_ = 0;
};

}  // namespace lockstep
