// SPDX-License-Identifier: Apache-2.0
// One simulation: EngineCore, ClusterCore and one SessionCore per worker, with clients, on virtual
// time. Faults strike for some seconds, then no more. The first broken promise ends it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/armed_points.h"
#include "tests/simulation/coordinator/client.h"
#include "tests/simulation/coordinator/cluster_side.h"
#include "tests/simulation/coordinator/engine_side.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/machines/world.h"

namespace lockstep::simulation {

// Sums over simulations: a simulator in which nothing happens proves nothing.
struct Tally {
  int64_t requests = 0;
  int64_t served = 0;
  int64_t tokens = 0;
  int64_t groups = 0;
  int64_t groups_lost = 0;
  int64_t preemptions = 0;
  int64_t cached = 0;  // Tokens that were not computed again.
  int64_t fetches = 0;
  int64_t ended_by_strikes = 0;  // Requests that ended at their third strike.
  int64_t drains = 0;
  int64_t processes = 0;
  int64_t loads = 0;
  int64_t keeps = 0;
  int64_t reuses = 0;
  int64_t long_works = 0;
  int64_t reloads = 0;
  int64_t uneven = 0;  // Epochs with uneven shards, by measured speeds.
  int64_t refusals = 0;
  int64_t late_ticks = 0;
  int64_t became_unready = 0;    // How often the server became unready after a fault,
  int64_t slowest_false_ms = 0;  // and the longest time from the fault until then.
  int64_t restarts = 0;
  int64_t smaller = 0;  // Groups of fewer ranks than configured.
  int64_t grown = 0;    // Groups that replaced one of fewer ranks.
  int64_t spares = 0;   // Spares that replaced a lost rank,
  int64_t covered = 0;  // and those of them that had its weights.
  int64_t preloads = 0;
  int64_t too_few = 0;  // Loads of a model that does not fit on so few ranks.
  FaultCounts faults;
  PointCounts points;

  Tally& operator+=(const Tally& other);
};

class Simulation {
 public:
  Simulation(uint64_t seed, bool trace, Plant plant);
  ~Simulation();

  // Returns the first broken promise; empty if all were kept.
  std::string run();
  void add_to(Tally* tally);

 private:
  // Runs until over() is true, which must happen within this time.
  template <typename Over>
  void run_until(const char* what, int64_t limit_ms, const Over& over);
  bool all_done() const;
  void check_end();
  void start_workers();
  void add_client(bool patient);
  void run_calm();
  void calm_down();
  void run_drain();

  World world_;
  ArmedPoints points_{&world_};
  Host host_;
  EngineSide engine_;
  const bool launch_;
  ClusterSide cluster_;
  Faults faults_;
  std::vector<std::unique_ptr<Client>> clients_;
  bool drains_ = false;
};

}  // namespace lockstep::simulation
