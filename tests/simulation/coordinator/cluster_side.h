// SPDX-License-Identifier: Apache-2.0
// ClusterCore on virtual time, with checks around it. Events stand for the work of RemoteCluster's
// threads, for the cluster's port and for the engine's calls.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cluster/cluster_core.h"
#include "tests/simulation/coordinator/cluster_checks.h"
#include "tests/simulation/coordinator/workers.h"
#include "tests/simulation/machines/machine.h"

namespace lockstep::simulation {

class ClusterSide final : public Workers, public Port, public ProcessListener {
 public:
  ClusterSide(Host* host, GroupListener* listener, bool launch, int64_t max_pages);

  void want_group(const GroupRequirements& requirements) override;
  void note_demand(Demand demand) override;
  void run_step(std::shared_ptr<const cluster::Step> step) override;
  void fetch_logits(uint64_t step, int output) override;
  void leave_group() override;
  void shutdown() override;
  bool healthy() const override;
  bool only_left() const override { return only_left_; }

  Link* open(Process* worker) override;
  void on_started(int index, int pid) override;
  void on_exited(int index, const ProcessEnd& end) override;

  Machine& machine() { return machine_; }
  const ClusterChecks& checks() const { return checks_; }
  // How often the server was restarted because it could never form a group.
  int64_t restarts() const { return restarts_; }
  // True if the group has all ranks of the model, or if fewer workers than ranks have joined.
  bool whole() const;
  // Runs after any event; `ready` is what the server would report now.
  void note_readiness(bool ready);

  // ---- Faults ----
  // Holds up the coordinator's process for this time.
  void hold_up(int64_t ms);
  // There are no more faults.
  void calm();

 private:
  using RankReplies = std::vector<cluster::WorkerMessage>;
  enum class Wait { kNothing, kGroup, kResults, kLogits };  // The engine's thread waits for this.

  ClusterCoreOptions options(bool launch, int64_t max_pages);
  template <typename Event>
  void post(const Event& event);
  void perform(ClusterAction action);
  void send(cluster_action::Send send);
  void spoil(ToCoordinator* message);
  void close(const cluster_action::Close& close);
  void tick();
  void run_tick();
  void continue_all();
  void restart();
  void on_closed(Link& link);

  void exchange(Wait wait, cluster::CoordinatorMessage message);
  void wake_engine();
  void answer_engine();
  void answer_group();
  void answer_exchange();

  Host& host_;
  World& world_;
  GroupListener& listener_;
  ProcessTime time_;
  Machine machine_;
  ClusterChecks checks_;
  const ClusterCoreOptions options_;
  std::unique_ptr<ClusterCore> core_;
  std::vector<std::unique_ptr<Link>> links_;  // Includes closed ones.
  std::map<LinkId, Link*> open_;
  LinkId last_link_ = 0;
  uint64_t epoch_ = 0;  // The epoch of the last message that was sent.
  int last_group_ = 0;
  bool tick_due_ = false;  // A tick became due while this process was held up.
  int64_t held_up_at_ = 0;
  int64_t restarts_ = 0;

  // The members from here on are those of RemoteCluster.
  Wait wait_ = Wait::kNothing;
  bool waking_ = false;
  bool over_ = false;
  std::optional<GroupInfo> formed_;
  absl::Status lost_;
  bool only_left_ = false;
  std::optional<RankReplies> replies_;
};

}  // namespace lockstep::simulation
