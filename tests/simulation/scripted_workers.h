// SPDX-License-Identifier: Apache-2.0
// A group whose steps take some time, which is lost at times and lies at times.
#pragma once

#include <memory>
#include <optional>

#include "tests/simulation/workers.h"
#include "tests/simulation/world.h"
#include "tests/support/fake_group.h"

namespace lockstep::simulation {

class ScriptedWorkers final : public Workers {
 public:
  ScriptedWorkers(World* world, GroupListener* listener, const FakeModel& model)
      : world_(*world), listener_(*listener), model_(model) {}

  void want_group() override;
  void run_step(std::shared_ptr<const cluster::Step> step) override;
  void fetch_logits(uint64_t step, int output) override;
  void leave_group() override;
  void drain() override {}
  bool healthy() const override { return true; }
  void calm() override { calm_ = true; }

 private:
  // In the same group, some time later.
  void later(int64_t delay, std::function<void()> what);
  void lose();

  World& world_;
  GroupListener& listener_;
  const FakeModel& model_;
  bool calm_ = false;
  uint64_t epoch_ = 0;  // Grows when a group is over.
  uint64_t formed_ = 0;
  std::optional<FakeWorkers> group_;
};

}  // namespace lockstep::simulation
