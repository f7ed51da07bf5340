// SPDX-License-Identifier: Apache-2.0
// The threads around a SessionCore: one reads the stream, so that an abort reaches a spinning
// collective at once; one sends heartbeats and computes nothing; the caller's thread does the work,
// one Work after the other. The Worker outlives the connection.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/threads/mutex.h"
#include "worker/backend.h"
#include "worker/collectives/host/rendezvous.h"
#include "worker/data/data_port.h"
#include "worker/options.h"
#include "worker/progress.h"
#include "worker/session/link.h"
#include "worker/session/session_core.h"
#include "worker/worker.h"

namespace lockstep {

// The state that outlives epochs and connections: the next epoch that needs the weights reuses
// them.
struct PersistentWorker {
  Progress progress;
  std::unique_ptr<Worker> worker;
  // Weights of a program that has ended, or of a preload: the next worker takes what it needs.
  std::unique_ptr<RetainedWeights> retained;
  WeightsInMemory weights;
};

// How this process introduces itself to a coordinator.
cluster::Hello hello_of(const WorkerProcessOptions& options, const Backend& backend);

// One connection. All arguments outlive it.
class Session {
 public:
  Session(const WorkerProcessOptions& options, const Backend& backend, PersistentWorker* persistent,
          Link& link);

  // Joins and serves until the stream ends. OK: the coordinator went away, or options.stop.
  // kPermissionDenied: it refused this worker; the message says why. kInternal: the device failed,
  // and this process cannot use it any more.
  absl::Status run();

 private:
  // Gives the core an event and takes its actions. True: there is something to write.
  template <typename Event>
  bool on(const Event& event) ABSL_LOCKS_EXCLUDED(mutex_);
  void take(SessionAction action) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void write_out() ABSL_LOCKS_EXCLUDED(mutex_, write_mutex_);
  void read_all();
  void send_heartbeats();
  void stop();
  bool is_closed() ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<Work> next_work() ABSL_LOCKS_EXCLUDED(mutex_);
  HeartbeatStats heartbeat_stats() const;

  WorkResult perform(const Work& work);
  absl::StatusOr<WorkResult> try_perform(const Work& work);

  // Loading of weights.
  absl::StatusOr<WorkResult> load(const Work& work);
  absl::StatusOr<WorkResult> preload(const Work& work);
  WorkerOptions worker_options(int64_t memory_free);
  void leave_last_epoch(const Work& work);
  absl::Status load_worker(const Work& work, std::unique_ptr<Collective> met, int64_t memory_free);
  absl::StatusOr<std::unique_ptr<Collective>> meet(const Work& work);
  absl::StatusOr<std::unique_ptr<Collective>> meet_over_hosts(const Work& work, MeetArgs meeting);

  const WorkerProcessOptions& options_;
  const Backend& backend_;
  PersistentWorker* const persistent_;
  Link& link_;
  Progress& progress_;
  std::atomic<bool> cancelled_{false};  // The running work was aborted.

  Mutex mutex_;
  ConditionVariable work_changed_;  // Notified when there is work, or at the end.
  ConditionVariable beat_changed_;  // Notified when there is a message to write, or at the end.
  SessionCore core_ ABSL_GUARDED_BY(mutex_);
  std::optional<Work> work_ ABSL_GUARDED_BY(mutex_);
  // In the order of sending; nullopt: the end of writing.
  std::deque<std::optional<cluster::WorkerMessage>> outbox_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;  // The other side ended the stream.
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;   // The last value for on_ready.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  Worker* running_ ABSL_GUARDED_BY(mutex_) = nullptr;  // The loaded worker, for abort().

  Mutex write_mutex_;  // Held while writing, so that messages leave in order.
};

}  // namespace lockstep
