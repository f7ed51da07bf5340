// SPDX-License-Identifier: Apache-2.0
// ClusterCore with threads around it: one lock, a thread for the time, and callers that wait for
// groups and answers. What arrives from workers and processes is handed in; what the core wants
// done goes to the transport and the launcher.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/threads/mutex.h"
#include "coordinator/cluster/cluster_core.h"
#include "coordinator/cluster/group.h"
#include "coordinator/cluster/transport.h"

namespace lockstep {

// Thread-safe; form() and the group by one thread at a time. Groups must not outlive it.
class RemoteCluster final : public Cluster, public LinkListener, public ProcessListener {
 public:
  // `progress`: bytes of weights that all ranks together have loaded, and in all; called with the
  // lock held.
  RemoteCluster(ClusterCoreOptions options, std::function<void(int64_t, int64_t)> progress);
  ~RemoteCluster() override;

  // Starts the thread; both outlive it or stop(). `processes` may be null where none are started.
  void run(WorkerTransport* transport, WorkerProcesses* processes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Shuts down, ends the thread and touches transport and processes no more. Events may still come.
  void stop() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<std::unique_ptr<Group>> form(const GroupWish& wish) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void note_demand(Demand demand) override ABSL_LOCKS_EXCLUDED(mutex_);
  void shutdown() override ABSL_LOCKS_EXCLUDED(mutex_);
  bool healthy() const override ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<WorkerState> workers() const override ABSL_LOCKS_EXCLUDED(mutex_);
  // Workers that have joined and not been lost.
  int joined() const ABSL_LOCKS_EXCLUDED(mutex_);

  void on_opened(LinkId link) override;
  void on_message(LinkId link, cluster::WorkerMessage message) override;
  void on_closed(LinkId link) override;
  void on_started(int index, int pid) override;
  void on_exited(int index, const ProcessEnd& end) override;

 private:
  class RemoteGroup;
  using Replies = std::vector<cluster::WorkerMessage>;

  // One event: runs it on the core, then does what the core wants.
  template <typename Event>
  void post(const Event& event) ABSL_LOCKS_EXCLUDED(mutex_);
  void perform() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void perform(ClusterAction action) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void tick_until_stopped() ABSL_LOCKS_EXCLUDED(mutex_);

  // Asks the group of that epoch; wait_replies() follows.
  absl::Status ask(uint64_t epoch, cluster::CoordinatorMessage message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing: they are not there at `until_ms`.
  absl::StatusOr<std::optional<Replies>> wait_replies(int64_t until_ms) ABSL_LOCKS_EXCLUDED(mutex_);
  void leave(uint64_t epoch, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::function<void(int64_t, int64_t)> progress_;
  mutable Mutex mutex_;
  ConditionVariable changed_;  // over_, formed_, lost_, replies_
  ConditionVariable stop_;     // stopping_
  ClusterCore core_ ABSL_GUARDED_BY(mutex_);
  WorkerTransport* transport_ ABSL_GUARDED_BY(mutex_) = nullptr;
  WorkerProcesses* processes_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status over_ ABSL_GUARDED_BY(mutex_);                // No group any more, and why.
  std::optional<GroupInfo> formed_ ABSL_GUARDED_BY(mutex_);  // The last one.
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);                // That one.
  std::optional<Replies> replies_ ABSL_GUARDED_BY(mutex_);   // To its question.
  std::thread ticker_;
};

}  // namespace lockstep
