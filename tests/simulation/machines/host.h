// SPDX-License-Identifier: Apache-2.0
// What all processes of one simulation share: the machine, the checkpoint's folder, and where
// groups meet.
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

// What a worker has just begun: when faults are to happen.
enum class Phase { kJoining, kLoading, kPreloading, kNullStep, kStep, kLogits, kDraining, kAny };
inline constexpr int64_t kReadRate = 100;
inline constexpr int kPhases = 8;
inline constexpr const char* kPhaseNames[kPhases] = {
    "joining", "loading", "preloading", "null step", "step", "logits", "draining", "any time"};

struct Host {
  World& world;
  const FakeModel model;
  const int64_t stuck_ms;
  const int64_t calm_at;  // When the last fault is over.
  const int64_t grace_ms;
  const int64_t regrow_ms;
  const int min_workers;
  const int fitting_ranks;  // The model has room on no fewer ranks than these.
  // How fast a worker on the other host reads, beside kReadRate here; 0: all are here.
  const int64_t other_read_rate;

  int64_t faults = 0;         // So far.
  bool calm = false;          // No more faults, and nothing takes long.
  int checkpoint = 1;         // Its version in the folder.
  int64_t progressed_at = 0;  // When a rank last got on with its work.
  std::map<std::string, std::shared_ptr<Collective>> groups;  // By Assignment.group.
  std::function<void(Process&, Phase)> on_phase;

  void rewrite() {
    checkpoint = world.one_in(3) && checkpoint > 1 ? checkpoint - 1 : checkpoint + 1;
    world.tell("fault: the folder has checkpoint {}", checkpoint);
  }

  // For people's eyes and for a simulator in which nothing happens.
  int64_t long_works = 0;  // Longer than a stuck worker is given.
  int64_t keeps = 0;       // Loads that used the weights in memory.
  int64_t reuses = 0;      // Loads that began with weights of another program.
  int64_t preloads = 0;    // Of workers without a rank.
  int64_t loads = 0;
  int64_t too_few = 0;  // Loads of a model that does not fit into so few ranks.
};

}  // namespace lockstep::simulation
