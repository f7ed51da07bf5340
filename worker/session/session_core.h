// SPDX-License-Identifier: Apache-2.0
// A worker's side of one connection to the coordinator, as a state machine: events go in, actions
// come out. It has no thread, clock, lock or stream: session.h has those, and tests/simulation runs
// many cores on virtual time.
//
//   connected -> Send{Hello}
//   Assignment -> Run{kCheck} .. work_done -> Run{kLoad} .. work_done -> Send{Ready}
//   Start -> Run{kStart} .. work_done
//   Step -> Run{kStep} .. work_done -> Send{StepResult}
//   preload, between epochs -> Run{kCheck} .. Run{kPreload} .. work_done -> Send{Preloaded}
//   tick -> Send{Heartbeat}
//   any work that fails -> Send{Failure}; the epoch is over, its other messages are dropped
//   stop -> Send{Goodbye} .. closed -> End
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"
#include "worker/session/session_actions.h"

namespace lockstep {

inline constexpr int64_t kHeartbeatMs = 250;
// How long a worker whose device failed waits until the coordinator has read its Failure.
inline constexpr int64_t kHangUpMs = 5000;
// How long a stopped worker waits until the coordinator has read its Goodbye.
inline constexpr int64_t kGoodbyeMs = 1000;
// Heartbeat.progress of a rank that runs steps begins at this number, which is larger than the
// progress of any rank that still loads.
inline constexpr uint64_t kStepsProgress = uint64_t{1} << 48;

// For one thread at a time. `now` is in milliseconds of a steady clock. After each event
// take_actions() returns the actions to carry out, in order.
class SessionCore {
 public:
  // `in_memory` outlives the core, which changes it only during an event.
  SessionCore(cluster::Hello hello, WeightsInMemory* in_memory);

  void connected(int64_t now);
  void message(int64_t now, cluster::CoordinatorMessage message);
  void work_done(int64_t now, WorkResult result);
  // The stream is over; either side may have ended it.
  void closed();
  // The user ends this worker: it says goodbye first.
  void stop(int64_t now);
  void tick(int64_t now, const HeartbeatStats& heartbeat_stats);
  // The time at which tick() next has something to do. An earlier call does nothing.
  int64_t next_tick() const { return next_tick_; }
  // True if this worker's group serves, or if it has preloaded the weights of a rank that it may
  // replace. False once the connection is about to end.
  bool ready() const;

  std::vector<SessionAction> take_actions();

 private:
  // The epoch's phase. kOver: aborted, failed, or there was none yet.
  enum class Phase { kOver, kChecking, kLoading, kReady, kStarted };

  // An assignment: of this worker's rank or, while it has no rank, of the rank that it preloads.
  struct Task {
    uint64_t epoch = 0;
    std::shared_ptr<const cluster::Assignment> assignment;
    bool preload = false;
  };
  struct Running {
    Work::Kind kind;
    Task task;
    bool aborted = false;
  };

  void on_assignment(uint64_t epoch, cluster::Assignment assignment);
  void on_preload(uint64_t epoch, cluster::Assignment assignment);
  bool preload_runs() const;
  bool preload_serves(const cluster::Assignment& assignment) const;
  void run_next();
  void run_message(cluster::CoordinatorMessage message);
  void run(Work work, const Task& task);
  void run_load(const Task& task, const std::string& stamp);
  void on_preload_done(const Running& done, WorkResult result);
  void on_reply(const Running& done, WorkResult result);
  void remember(const Running& done, const WorkResult& result);
  void fail(const absl::Status& status);
  void give_up(int64_t now, const Running& done, const WorkResult& result);
  void hang_up(int64_t now, int64_t patience_ms, absl::Status why);
  void end_epoch();
  void abort_running();
  void end(absl::Status status);
  void end_if_idle();
  void send(uint64_t epoch, cluster::WorkerMessage message);
  uint64_t progress(const HeartbeatStats& heartbeat_stats) const;

  const cluster::Hello hello_;
  WeightsInMemory* const in_memory_;
  std::vector<SessionAction> actions_;
  uint64_t epoch_ = 0;  // The last one assigned.
  Phase phase_ = Phase::kOver;
  Task task_;                                      // The task of the epoch.
  bool serves_ = false;                            // A step was answered; the null step is first.
  std::optional<Task> preload_;                    // Only between epochs.
  bool preloaded_ = false;                         // The weights of the last preload are in memory.
  std::deque<cluster::CoordinatorMessage> queue_;  // Messages of the epoch, run in order.
  std::optional<Running> running_;
  int64_t bytes_reported_ = 0;
  int64_t next_tick_ = std::numeric_limits<int64_t>::max();
  std::optional<int64_t> hang_up_at_;   // Set after the last message: when to end.
  std::optional<absl::Status> ending_;  // The status to end with.
  bool ended_ = false;
};

}  // namespace lockstep
