// SPDX-License-Identifier: Apache-2.0
// ClusterCore with threads around it: one lock, a timer thread, and callers that wait for groups
// and answers. Events of workers and processes go to the core; its actions go to the transport and
// the launcher.
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

// Thread-safe; one thread at a time uses form() and the group. Groups must not outlive this object.
class RemoteCluster final : public Cluster, public LinkListener, public ProcessListener {
 public:
  // `progress`: bytes of weights over all ranks, loaded so far and in total; called under the lock.
  RemoteCluster(ClusterCoreOptions options, std::function<void(int64_t, int64_t)> progress);
  ~RemoteCluster() override;

  // Starts the timer thread. Both pointers must stay valid until stop() or the destructor.
  // `processes` may be null if no workers are started here.
  void run(WorkerTransport* transport, WorkerProcesses* processes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Shuts down, ends the thread and stops using both pointers. Events may still arrive.
  void stop() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<std::unique_ptr<Group>> form(const GroupRequirements& requirements) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void note_demand(Demand demand) override ABSL_LOCKS_EXCLUDED(mutex_);
  void shutdown() override ABSL_LOCKS_EXCLUDED(mutex_);
  bool healthy() const override ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<WorkerState> workers() const override ABSL_LOCKS_EXCLUDED(mutex_);
  // Workers that have joined and were not lost.
  int joined() const ABSL_LOCKS_EXCLUDED(mutex_);

  void on_opened(LinkId link) override;
  void on_message(LinkId link, cluster::WorkerMessage message) override;
  void on_closed(LinkId link) override;
  void on_started(int index, int pid) override;
  void on_exited(int index, const ProcessEnd& end) override;

 private:
  class RemoteGroup;
  using RankReplies = std::vector<cluster::WorkerMessage>;

  // Runs one event on the core, then carries out the core's actions.
  template <typename Event>
  void post(const Event& event) ABSL_LOCKS_EXCLUDED(mutex_);
  void perform() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void perform(ClusterAction action) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void tick_until_stopped() ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends a question to the group of that epoch; wait_replies() follows.
  absl::Status ask(uint64_t epoch, cluster::CoordinatorMessage message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nullopt: the replies have not arrived by `until_ms`.
  absl::StatusOr<std::optional<RankReplies>> wait_replies(int64_t until_ms)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void leave(uint64_t epoch, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::function<void(int64_t, int64_t)> progress_;
  mutable Mutex mutex_;
  ConditionVariable changed_;  // over_, formed_, lost_, replies_
  ConditionVariable stop_;     // stopping_
  ClusterCore core_ ABSL_GUARDED_BY(mutex_);
  WorkerTransport* transport_ ABSL_GUARDED_BY(mutex_) = nullptr;
  WorkerProcesses* processes_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status over_ ABSL_GUARDED_BY(mutex_);                   // Why there will be no more groups.
  std::optional<GroupInfo> formed_ ABSL_GUARDED_BY(mutex_);     // The last group.
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);                   // Why that group was lost.
  std::optional<RankReplies> replies_ ABSL_GUARDED_BY(mutex_);  // To the last question.
  std::thread ticker_;
};

}  // namespace lockstep
