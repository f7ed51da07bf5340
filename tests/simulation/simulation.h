// SPDX-License-Identifier: Apache-2.0
// One story: engine, workers and clients on virtual time, with faults for some seconds and calm
// afterwards. A promise that is broken at any moment ends it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/client.h"
#include "tests/simulation/engine_side.h"
#include "tests/simulation/world.h"

namespace lockstep::simulation {

// Summed over simulations: a simulator in which nothing happens proves nothing.
struct Tally {
  int64_t requests = 0;
  int64_t served = 0;
  int64_t tokens = 0;
  int64_t groups = 0;
  int64_t groups_lost = 0;
  int64_t preemptions = 0;
  int64_t fetches = 0;
  int64_t drains = 0;
};

class Simulation {
 public:
  Simulation(uint64_t seed, bool trace);
  ~Simulation();

  // The first broken promise; empty: all were kept.
  std::string run();
  void add_to(Tally* tally) const;

 private:
  // Runs until `over()`, which has to come true within this time.
  template <typename Over>
  void run_until(const char* what, int64_t limit_ms, const Over& over);
  bool all_done() const;
  void check_end();
  void run_calm();
  void run_drain();

  World world_;
  FakeModel model_;
  EngineSide engine_;
  std::unique_ptr<Workers> workers_;
  std::vector<std::unique_ptr<Client>> clients_;
  bool drains_ = false;
};

}  // namespace lockstep::simulation
