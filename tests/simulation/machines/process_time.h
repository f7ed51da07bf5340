// SPDX-License-Identifier: Apache-2.0
// The time of one process: nothing happens in it while it is stopped, nor after its end.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "tests/simulation/machines/world.h"

namespace lockstep::simulation {

// Events of the simulation refer to this object, so it must outlive them.
class ProcessTime {
 public:
  explicit ProcessTime(World* world) : world_(*world) {}

  void after(int64_t delay, std::function<void()> what) {
    world_.after(delay, [this, what = std::move(what)]() mutable { at_once(std::move(what)); });
  }
  // Runs `what` now, or when the process is continued.
  void at_once(std::function<void()> what) {
    if (ended_) return;
    if (!stopped_) return what();
    held_.push_back(std::move(what));
  }
  bool runs() const { return !stopped_ && !ended_; }
  bool stopped() const { return stopped_; }
  bool ended() const { return ended_; }

  void stop() { stopped_ = true; }
  // The events that came while the process was stopped run now, in order.
  void resume() {
    stopped_ = false;
    while (!held_.empty() && runs()) {
      const std::function<void()> what = std::move(held_.front());
      held_.pop_front();
      what();
    }
  }
  void end() {
    ended_ = true;
    held_.clear();
  }

 private:
  World& world_;
  bool stopped_ = false;
  bool ended_ = false;
  std::deque<std::function<void()>> held_;
};

}  // namespace lockstep::simulation
