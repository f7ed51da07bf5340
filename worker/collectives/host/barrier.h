// SPDX-License-Identifier: Apache-2.0
// How ranks wait for one another in a region: each arrives, then waits until all ranks have arrived
// as often as it has. A wait spins briefly, then sleeps on a futex; the sleepers also wake up when
// the group ends.
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "worker/collectives/host/region.h"

namespace lockstep {

// One rank's side of the barrier; `rank` is its index among the ranks of this host. arrive() and
// wait() are for one thread, fail() and failure() for any. After wait() a rank sees what the others
// wrote before arrive(). The region outlives the barrier.
class Barrier {
 public:
  using Clock = std::chrono::steady_clock;

  Barrier(RegionHeader& region, int rank);

  // This rank's number in the group.
  int64_t number() const { return region_.numbers[rank_]; }

  // One store if no rank sleeps, else one system call.
  void arrive();

  // OK if all ranks have arrived as often as this one, even if the group has ended since. Otherwise
  // kAborted, kUnavailable (a rank is gone or has left), kDeadlineExceeded or kInternal (the ranks'
  // calls do not match); the message names the ranks. Detects a lost peer within 50 ms. Adds the
  // time that it waited to *wait_ns.
  absl::Status wait(Clock::time_point deadline, int64_t* wait_ns);

  // Ends the group on all ranks of this host. `number` is a rank's number in the group, for
  // messages: the rank that is gone, or that aborted the group, or that found the failure. The
  // first cause wins. Async-signal-safe.
  void fail(Failure failure, int64_t number);

  // OK while the group has not ended.
  absl::Status failure() const;
  // The reason for the end, for ranks of other hosts: a lost rank, or else an abort.
  Goodbye goodbye() const;

  // Marks this rank as having left, so that peers wait for it no longer.
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
