// SPDX-License-Identifier: Apache-2.0
// The state that all processes of one simulation share: the machine, the checkpoint's folder, and
// the collectives of groups.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "tests/simulation/machines/collective.h"
#include "tests/simulation/machines/world.h"
#include "tests/support/cluster/fake_group.h"

namespace lockstep::simulation {

class Process;

// The stage that a worker has just begun; faults may wait for one.
enum class Phase { kJoining, kLoading, kPreloading, kNullStep, kStep, kLogits, kDraining, kAny };
inline constexpr int64_t kReadRate = 100;
inline constexpr int kPhases = 8;
inline constexpr const char* kPhaseNames[kPhases] = {
    "joining", "loading", "preloading", "null step", "step", "logits", "draining", "any time"};

struct Host {
  World& world;
  const FakeModel model;
  const int64_t stuck_ms;
  const int64_t calm_at;  // The time after which no fault strikes.
  const int64_t grace_ms;
  const int64_t regrow_ms;
  const int min_workers;
  const int fitting_ranks;  // The model does not fit on fewer ranks.
  // The read rate of workers on the second host (those on the first have kReadRate); 0: there is
  // only one host.
  const int64_t other_read_rate;

  int64_t faults = 0;         // The number of faults so far.
  bool calm = false;          // No more faults, and nothing takes long.
  int checkpoint = 1;         // The version of the checkpoint in the folder.
  int64_t progressed_at = 0;  // The last progress of any rank.
  std::map<std::string, std::shared_ptr<Collective>> groups;  // By Assignment.group.
  std::function<void(Process&, Phase)> on_phase;

  void rewrite() {
    checkpoint = world.one_in(3) && checkpoint > 1 ? checkpoint - 1 : checkpoint + 1;
    world.log("fault: the folder has checkpoint {}", checkpoint);
  }

  // Counts that people read; they also show whether the simulation does anything.
  int64_t long_works = 0;  // Work longer than the limit for stuck workers.
  int64_t keeps = 0;       // Loads that used the weights in memory.
  int64_t reuses = 0;      // Loads that began with weights of another program.
  int64_t preloads = 0;    // Loads of workers without a rank.
  int64_t loads = 0;
  int64_t too_few = 0;  // Loads of a model that does not fit on so few ranks.
};

}  // namespace lockstep::simulation
