// SPDX-License-Identifier: Apache-2.0
// The stream between a worker and the coordinator: a pipe in each direction.
#pragma once

#include "coordinator/cluster/cluster_actions.h"
#include "tests/simulation/machines/pipe.h"

namespace lockstep::simulation {

class Process;

// Events of the simulation refer to this object, so it must outlive them.
struct Link {
  Link(World* world, ProcessTime* coordinator, ProcessTime* worker, Process* of)
      : up(world, coordinator), down(world, worker), process(*of) {}

  Pipe<ToCoordinator> up;
  Pipe<ToWorker> down;
  Process& process;
  LinkId id = 0;  // 0: the coordinator has not seen it yet.

  void cut() {
    up.cut();
    down.cut();
  }
  // If a direction loses all messages, both sides see the stream's end now, as if a keepalive ping
  // had had no answer.
  void notice() {
    if (up.drops() || down.drops()) {
      up.notice();
      down.notice();
      cut();
    }
  }
  // There are no more faults.
  void calm() {
    notice();
    up.slow_down(0);
    down.slow_down(0);
  }
};

}  // namespace lockstep::simulation
