// SPDX-License-Identifier: Apache-2.0
// The fault points that fire in one simulation: a seed arms each with probability 1/4, and an armed
// point fires with probability 1/4 each time it is reached.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/fault_point.h"
#include "tests/simulation/machines/world.h"

namespace lockstep::simulation {

using PointCounts = std::map<std::string, int64_t>;  // By name: how often the point fired.

// While this object lives, it decides which fault points of this thread fire.
class ArmedPoints final : public FaultPoints {
 public:
  explicit ArmedPoints(World* world) : world_(*world) { fault_points = this; }
  ~ArmedPoints() override { fault_points = nullptr; }
  ArmedPoints(const ArmedPoints&) = delete;
  ArmedPoints& operator=(const ArmedPoints&) = delete;

  bool fires(const char* name) override {
    const auto [point, first] = armed_.try_emplace(name, false);
    if (first) point->second = world_.one_in(4);
    if (!point->second || !world_.one_in(4)) return false;
    world_.log("fault point {}", name);
    ++counts_[name];
    return true;
  }
  const PointCounts& counts() const { return counts_; }

 private:
  World& world_;
  std::map<std::string, bool> armed_;
  PointCounts counts_;
};

}  // namespace lockstep::simulation
