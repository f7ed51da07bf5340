// SPDX-License-Identifier: Apache-2.0
// A Cluster whose groups are FakeWorkers. A test decides when a step may run, and what fails.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/threads/mutex.h"
#include "coordinator/cluster/group.h"
#include "tests/support/cluster/fake_group.h"

namespace lockstep {

// Forms fake groups. Thread-safe.
class FakeCluster : public Cluster {
 public:
  // Called in every receive(), on the engine's thread, and may block; an error ends the group.
  using Hook = std::function<absl::Status(const cluster::Step& step)>;
  // Called with the results of every step that has outputs.
  using Falsifier = std::function<void(std::vector<cluster::StepResult>* results)>;

  explicit FakeCluster(const FakeModel& model) : model_(model) {}
  absl::StatusOr<std::unique_ptr<Group>> form(const GroupRequirements& requirements) override;
  void shutdown() override;

  // Later groups use this model.
  void change(const FakeModel& model);
  void set_hook(Hook hook);
  void falsify(Falsifier falsifier);
  // While the cluster is held, no step and no request for logits is answered.
  void hold(bool held);
  // From now on every request for logits ends the group with this error.
  void fail_logits(absl::Status why);
  // The next request for logits is accepted, but the wait for its answer fails with this error.
  void lose_fetch(absl::Status why);
  // form() waits while forming is not allowed.
  void allow_forming(bool allowed);
  // From now on form() fails with this error; with OK it works again.
  void refuse(absl::Status why);

  // The errors that FakeWorkers has reported: each names a rule that a Step broke.
  std::vector<std::string> broken_rules() const;
  int64_t logits_fetched() const;
  int groups() const;
  int refusals() const;  // The number of times that form() has failed.
  int aborts() const;

 private:
  class FakeGroup;

  // Waits while the cluster is held. False: it was still held at `until_ms`.
  bool answers(int64_t until_ms);

  mutable Mutex mutex_;
  FakeModel model_ ABSL_GUARDED_BY(mutex_);
  ConditionVariable changed_;  // Signals that allowed_, held_, stopped_ or refusal_ changed.
  Hook hook_ ABSL_GUARDED_BY(mutex_);
  Falsifier falsifier_ ABSL_GUARDED_BY(mutex_);
  absl::Status logits_failure_ ABSL_GUARDED_BY(mutex_);
  absl::Status fetch_loss_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool allowed_ ABSL_GUARDED_BY(mutex_) = true;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> broken_rules_ ABSL_GUARDED_BY(mutex_);
  int64_t logits_fetched_ ABSL_GUARDED_BY(mutex_) = 0;
  int groups_ ABSL_GUARDED_BY(mutex_) = 0;
  int refusals_ ABSL_GUARDED_BY(mutex_) = 0;
  int aborts_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Holds back every step of a cluster until the gate is opened or destroyed.
class StepGate {
 public:
  explicit StepGate(FakeCluster& cluster) {
    cluster.set_hook([opened = opened_.get_future().share()](const cluster::Step&) {
      opened.wait();
      return absl::OkStatus();
    });
  }
  ~StepGate() { open(); }
  void open() {
    if (!std::exchange(is_open_, true)) opened_.set_value();
  }

 private:
  std::promise<void> opened_;
  bool is_open_ = false;
};

}  // namespace lockstep
