// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cluster/fake_cluster.h"

#include <utility>

#include "base/status.h"
#include "base/system/clock.h"

namespace lockstep {

class FakeCluster::FakeGroup : public Group {
 public:
  FakeGroup(FakeCluster* cluster, const FakeModel& model, uint64_t epoch)
      : cluster_(cluster), info_(fake_info(model, epoch)), workers_(model) {}

  const GroupInfo& info() const override { return info_; }

  absl::Status send(std::shared_ptr<const cluster::Step> step) override {
    step_ = std::move(step);
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<RankResults>> receive(int64_t until_ms) override {
    if (!cluster_->answers(until_ms)) return std::nullopt;
    const cluster::Step& step = *step_;
    Hook hook;
    Falsifier falsifier;
    {
      MutexLock lock(&cluster_->mutex_);
      hook = cluster_->hook_;
      falsifier = cluster_->falsifier_;
    }
    if (hook) RETURN_IF_ERROR(hook(step));
    ASSIGN_OR_RETURN(RankResults results, remember(workers_.run(step)));
    if (falsifier && step.outputs_size() > 0) falsifier(&results);
    return results;
  }

  absl::Status ask_logits(uint64_t step, int output) override {
    question_ = {step, output};
    MutexLock lock(&cluster_->mutex_);
    ++cluster_->logits_fetched_;
    return cluster_->logits_failure_;
  }

  absl::StatusOr<std::optional<std::vector<float>>> receive_logits(int64_t until_ms) override {
    if (!cluster_->answers(until_ms)) return std::nullopt;
    {
      MutexLock lock(&cluster_->mutex_);
      RETURN_IF_ERROR(std::exchange(cluster_->fetch_loss_, absl::OkStatus()));
    }
    return remember(workers_.logits(question_.first, question_.second));
  }

  void abort() override {
    MutexLock lock(&cluster_->mutex_);
    ++cluster_->aborts_;
  }

 private:
  template <typename T>
  absl::StatusOr<T> remember(absl::StatusOr<T> result) {
    if (!result.ok()) {
      MutexLock lock(&cluster_->mutex_);
      cluster_->broken_rules_.push_back(message_of(result.status()));
    }
    return result;
  }

  FakeCluster* cluster_;
  GroupInfo info_;
  FakeWorkers workers_;
  std::shared_ptr<const cluster::Step> step_;
  std::pair<uint64_t, int> question_;  // A step and the index of one of its outputs.
};

absl::StatusOr<std::unique_ptr<Group>> FakeCluster::form(const GroupRequirements&) {
  MutexLock lock(&mutex_);
  while (!stopped_ && !allowed_ && refusal_.ok()) changed_.wait(&mutex_);
  if (stopped_) return absl::CancelledError("the cluster is shut down");
  if (!refusal_.ok()) {
    ++refusals_;
    return refusal_;
  }
  ++groups_;
  return std::unique_ptr<Group>(
      std::make_unique<FakeGroup>(this, model_, static_cast<uint64_t>(groups_)));
}

void FakeCluster::change(const FakeModel& model) {
  MutexLock lock(&mutex_);
  model_ = model;
}

void FakeCluster::shutdown() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  changed_.notify_all();
}

void FakeCluster::set_hook(Hook hook) {
  MutexLock lock(&mutex_);
  hook_ = std::move(hook);
}

void FakeCluster::hold(bool held) {
  MutexLock lock(&mutex_);
  held_ = held;
  changed_.notify_all();
}

bool FakeCluster::answers(int64_t until_ms) {
  MutexLock lock(&mutex_);
  while (held_ && changed_.wait_until(&mutex_, steady_time(until_ms))) {
  }
  return !held_;
}

void FakeCluster::lose_fetch(absl::Status why) {
  MutexLock lock(&mutex_);
  fetch_loss_ = std::move(why);
}

void FakeCluster::fail_logits(absl::Status why) {
  MutexLock lock(&mutex_);
  logits_failure_ = std::move(why);
}

void FakeCluster::falsify(Falsifier falsifier) {
  MutexLock lock(&mutex_);
  falsifier_ = std::move(falsifier);
}

void FakeCluster::allow_forming(bool allowed) {
  MutexLock lock(&mutex_);
  allowed_ = allowed;
  changed_.notify_all();
}

void FakeCluster::refuse(absl::Status why) {
  MutexLock lock(&mutex_);
  refusal_ = std::move(why);
  changed_.notify_all();
}

std::vector<std::string> FakeCluster::broken_rules() const {
  MutexLock lock(&mutex_);
  return broken_rules_;
}

int64_t FakeCluster::logits_fetched() const {
  MutexLock lock(&mutex_);
  return logits_fetched_;
}

int FakeCluster::groups() const {
  MutexLock lock(&mutex_);
  return groups_;
}

int FakeCluster::refusals() const {
  MutexLock lock(&mutex_);
  return refusals_;
}

int FakeCluster::aborts() const {
  MutexLock lock(&mutex_);
  return aborts_;
}

}  // namespace lockstep
