// SPDX-License-Identifier: Apache-2.0
// One epoch of a group: its members, and the mail they sent, in one place where the engine's thread
// can wait for it. Messages of other epochs never get here.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "coordinator/cluster/worker_link.h"

namespace lockstep {

// Thread-safe: gRPC's threads deliver, the engine's thread collects.
class Epoch {
 public:
  Epoch(uint64_t number, std::vector<std::shared_ptr<WorkerLink>> members);

  uint64_t number() const { return number_; }
  int ranks() const { return static_cast<int>(members_.size()); }
  // The rank of a link, or -1.
  int rank_of(const WorkerLink* link) const;
  WorkerLink& member(int rank) const { return *members_[rank]; }

  void send(int rank, cluster::CoordinatorMessage message);
  void broadcast(const cluster::CoordinatorMessage& message);

  void deliver(int rank, cluster::WorkerMessage message) ABSL_LOCKS_EXCLUDED(mutex_);
  // The epoch is over; the first reason stays.
  void fail(absl::Status reason) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for one message of every rank and takes them, in rank order. kUnavailable naming the
  // ranks that said nothing within `timeout`, or the reason why the epoch ended.
  absl::StatusOr<std::vector<cluster::WorkerMessage>> collect(absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool complete_or_over() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t number_;
  const std::vector<std::shared_ptr<WorkerLink>> members_;
  absl::Mutex mutex_;
  std::vector<std::deque<cluster::WorkerMessage>> mail_ ABSL_GUARDED_BY(mutex_);
  absl::Status over_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep
