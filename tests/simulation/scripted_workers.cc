// SPDX-License-Identifier: Apache-2.0
// Faults are drawn whenever something is asked of the group.
#include "tests/simulation/scripted_workers.h"

#include <utility>

#include "base/status.h"

namespace lockstep::simulation {

void ScriptedWorkers::later(int64_t delay, std::function<void()> what) {
  world_.after(delay, [this, epoch = epoch_, what = std::move(what)] {
    if (epoch == epoch_) what();
  });
}

void ScriptedWorkers::want_group() {
  later(world_.between(1, 400), [this] {
    group_.emplace(model_);
    if (!calm_ && world_.one_in(10)) later(world_.between(1, 2000), [this] { lose(); });
    listener_.group_formed(fake_info(model_, ++formed_));
  });
}

void ScriptedWorkers::lose() {
  if (!group_.has_value() || calm_) return;
  leave_group();
  listener_.group_lost(unavailable("rank 1 (pid 7) was lost"));
}

void ScriptedWorkers::leave_group() {
  ++epoch_;
  group_.reset();
}

void ScriptedWorkers::run_step(std::shared_ptr<const cluster::Step> step) {
  if (!calm_ && world_.one_in(80)) return later(world_.between(0, 30), [this] { lose(); });
  later(world_.between(1, 30), [this, step] {
    absl::StatusOr<std::vector<cluster::StepResult>> results = group_->run(*step);
    if (!results.ok()) return world_.broken("{}", message_of(results.status()));
    if (!calm_ && step->outputs_size() > 0 && world_.one_in(100)) {
      world_.tell("workers: a rank lies");
      results->back().mutable_outputs(0)->mutable_noisy()->set_id(1 << 20);
    }
    listener_.results(*std::move(results));
  });
}

void ScriptedWorkers::fetch_logits(uint64_t step, int output) {
  later(world_.between(1, 10), [this, step, output] {
    const absl::StatusOr<std::vector<float>> logits = group_->logits(step, output);
    if (!logits.ok()) return world_.broken("{}", message_of(logits.status()));
    listener_.logits(*logits);
  });
}

}  // namespace lockstep::simulation
