// SPDX-License-Identifier: Apache-2.0
// Actions are carried out under the lock, so that they reach the transport in the core's order.
#include "coordinator/cluster/remote_cluster.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "base/status.h"
#include "base/system/clock.h"
#include "coordinator/cluster/rank_replies.h"

namespace lockstep {

class RemoteCluster::RemoteGroup final : public Group {
 public:
  RemoteGroup(RemoteCluster* cluster, GroupInfo info) : cluster_(cluster), info_(std::move(info)) {}
  ~RemoteGroup() override {
    cluster_->leave(info_.epoch, absl::CancelledError("the group was dissolved"));
  }

  const GroupInfo& info() const override { return info_; }

  absl::Status send(std::shared_ptr<const cluster::Step> step) override {
    cluster::CoordinatorMessage message;
    *message.mutable_step() = *step;
    return cluster_->ask(info_.epoch, std::move(message));
  }

  absl::StatusOr<std::optional<RankResults>> receive(int64_t until_ms) override {
    ASSIGN_OR_RETURN(std::optional<RankReplies> replies, cluster_->wait_replies(until_ms));
    if (!replies.has_value()) return std::nullopt;
    return results_of(*std::move(replies));
  }

  absl::Status ask_logits(uint64_t step, int output) override {
    cluster::CoordinatorMessage message;
    message.mutable_logits()->set_step(step);
    message.mutable_logits()->set_output(output);
    return cluster_->ask(info_.epoch, std::move(message));
  }

  absl::StatusOr<std::optional<std::vector<float>>> receive_logits(int64_t until_ms) override {
    ASSIGN_OR_RETURN(const std::optional<RankReplies> replies, cluster_->wait_replies(until_ms));
    if (!replies.has_value()) return std::nullopt;
    return logits_of(*replies, info_.vocab);
  }

  void abort() override {
    cluster_->leave(info_.epoch, absl::CancelledError("the step was cancelled"));
  }

 private:
  RemoteCluster* const cluster_;
  const GroupInfo info_;
};

RemoteCluster::RemoteCluster(ClusterCoreOptions options,
                             std::function<void(int64_t, int64_t)> progress)
    : progress_(std::move(progress)), core_(std::move(options)) {}

RemoteCluster::~RemoteCluster() { stop(); }

void RemoteCluster::run(WorkerTransport* transport, WorkerProcesses* processes) {
  {
    MutexLock lock(&mutex_);
    transport_ = transport;
    processes_ = processes;
  }
  ticker_ = std::thread([this] { tick_until_stopped(); });
}

void RemoteCluster::stop() {
  shutdown();
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    transport_ = nullptr;
    processes_ = nullptr;
    stop_.notify_all();
  }
  if (ticker_.joinable()) ticker_.join();
}

void RemoteCluster::tick_until_stopped() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    core_.tick(steady_now_ms());
    perform();
    const auto next = std::chrono::steady_clock::now() + std::chrono::milliseconds(kTickMs);
    while (!stopping_ && stop_.wait_until(&mutex_, next)) {
    }
  }
}

// ---- Events in, actions out ----

template <typename Event>
void RemoteCluster::post(const Event& event) {
  MutexLock lock(&mutex_);
  event(core_, steady_now_ms());
  perform();
}

void RemoteCluster::perform() {
  for (ClusterAction& action : core_.take_actions()) perform(std::move(action));
}

void RemoteCluster::perform(ClusterAction action) {
  using namespace cluster_action;
  if (auto* send = std::get_if<Send>(&action)) {
    if (transport_ != nullptr) transport_->send(send->links, send->message);
  } else if (auto* close = std::get_if<Close>(&action)) {
    if (transport_ != nullptr) transport_->close(close->link, close->after_sending);
  } else if (auto* start = std::get_if<StartWorker>(&action)) {
    if (processes_ != nullptr) processes_->start(start->index);
  } else if (auto* kill = std::get_if<KillWorker>(&action)) {
    if (processes_ != nullptr) processes_->kill(kill->index);
  } else if (auto* formed = std::get_if<GroupFormed>(&action)) {
    formed_ = std::move(formed->info);
    lost_ = absl::OkStatus();
    changed_.notify_all();
  } else if (auto* lost = std::get_if<GroupLost>(&action)) {
    lost_ = std::move(lost->why);
    changed_.notify_all();
  } else if (auto* replies = std::get_if<cluster_action::RankReplies>(&action)) {
    replies_ = std::move(replies->messages);
    changed_.notify_all();
  } else if (auto* impossible = std::get_if<FormingImpossible>(&action)) {
    if (over_.ok()) over_ = std::move(impossible->why);
    changed_.notify_all();
  } else if (auto* log = std::get_if<Log>(&action)) {
    spdlog::log(log->level == LogLevel::kInfo ? spdlog::level::info : spdlog::level::warn, "{}",
                log->line);
  } else if (auto* loaded = std::get_if<Loaded>(&action)) {
    if (progress_) progress_(loaded->bytes_done, loaded->bytes_total);
  }
}

void RemoteCluster::on_opened(LinkId link) {
  post([&](ClusterCore& core, int64_t now) { core.opened(now, link); });
}
void RemoteCluster::on_message(LinkId link, cluster::WorkerMessage message) {
  post([&](ClusterCore& core, int64_t now) { core.message(now, link, std::move(message)); });
}
void RemoteCluster::on_closed(LinkId link) {
  post([&](ClusterCore& core, int64_t now) { core.closed(now, link); });
}
void RemoteCluster::on_started(int index, int pid) {
  post([&](ClusterCore& core, int64_t now) { core.worker_started(now, index, pid); });
}
void RemoteCluster::on_exited(int index, const ProcessEnd& end) {
  post([&](ClusterCore& core, int64_t now) { core.worker_exited(now, index, end); });
}

// ---- The group's owner ----

absl::StatusOr<std::unique_ptr<Group>> RemoteCluster::form(const GroupRequirements& requirements) {
  MutexLock lock(&mutex_);
  if (!over_.ok()) return over_;
  formed_.reset();
  core_.want_group(steady_now_ms(), requirements);
  perform();
  while (!formed_.has_value() && over_.ok()) changed_.wait(&mutex_);
  if (!over_.ok()) return over_;
  return std::make_unique<RemoteGroup>(this, *formed_);
}

absl::Status RemoteCluster::ask(uint64_t epoch, cluster::CoordinatorMessage message) {
  MutexLock lock(&mutex_);
  if (!formed_.has_value() || formed_->epoch != epoch) return unavailable("the group is over");
  replies_.reset();
  if (!lost_.ok()) return lost_;
  core_.exchange(steady_now_ms(), std::move(message));
  perform();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<RemoteCluster::RankReplies>> RemoteCluster::wait_replies(
    int64_t until_ms) {
  MutexLock lock(&mutex_);
  while (!replies_.has_value() && lost_.ok()) {
    if (until_ms == INT64_MAX) {
      changed_.wait(&mutex_);
    } else if (!changed_.wait_until(&mutex_, steady_time(until_ms))) {
      break;
    }
  }
  if (!lost_.ok()) return lost_;
  return std::exchange(replies_, std::nullopt);
}

void RemoteCluster::leave(uint64_t epoch, const absl::Status& why) {
  MutexLock lock(&mutex_);
  if (!formed_.has_value() || formed_->epoch != epoch || !lost_.ok()) return;
  lost_ = why;
  core_.end_epoch(steady_now_ms(), message_of(why));
  perform();
  changed_.notify_all();
}

void RemoteCluster::note_demand(Demand demand) {
  post([&](ClusterCore& core, int64_t now) { core.note_demand(now, demand); });
}

void RemoteCluster::shutdown() {
  MutexLock lock(&mutex_);
  if (over_.ok()) over_ = absl::CancelledError("the cluster was shut down");
  core_.shutdown(steady_now_ms());
  perform();
  changed_.notify_all();
}

bool RemoteCluster::healthy() const {
  MutexLock lock(&mutex_);
  return core_.ready(steady_now_ms());
}

std::vector<WorkerState> RemoteCluster::workers() const {
  MutexLock lock(&mutex_);
  return core_.workers(steady_now_ms());
}

int RemoteCluster::joined() const {
  MutexLock lock(&mutex_);
  return core_.joined();
}

}  // namespace lockstep
