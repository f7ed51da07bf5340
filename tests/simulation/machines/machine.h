// SPDX-License-Identifier: Apache-2.0
// All processes of workers: those that the coordinator launches, as launcher.h does, and those that
// are started by hand. The second kind are restarted when they end, except guests and unfit
// workers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/cluster/transport.h"
#include "tests/simulation/machines/process.h"

namespace lockstep::simulation {

class Machine final : public WorkerProcesses {
 public:
  // `coordinator` is the time of the launcher's process.
  Machine(Host* host, Port* port, ProcessListener* listener, ProcessTime* coordinator)
      : host_(*host), port_(*port), listener_(*listener), coordinator_(*coordinator) {}

  // The Hello of a worker that fits into the group.
  static cluster::Hello hello();
  // The Hello of a spare.
  static cluster::Hello spare();

  void start(int index) override;
  void kill(int index) override;
  // The coordinator ended: the workers that it launched die, and their ends are not reported.
  void coordinator_ended();

  Process& start_by_hand(cluster::Hello hello, bool uninvited, bool unfit);
  // The next launch fails.
  void refuse_start() { refuses_start_ = true; }
  // Kills guests and unfit workers. Workers started by hand are continued if they are stopped, and
  // restarted if they are stuck.
  void calm();

  const std::vector<std::unique_ptr<Process>>& processes() const { return processes_; }
  std::vector<Process*> alive() const;

 private:
  Process& create(ProcessOptions options);
  void on_exit(Process& process, const ProcessEnd& end);
  // Runs `what` in the coordinator after the delay. Reports arrive in order.
  void report(int64_t delay, std::function<void()> what);
  int64_t draw_startup();

  Host& host_;
  Port& port_;
  ProcessListener& listener_;
  ProcessTime& coordinator_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<Process*> launched_;  // By index; null if not launched yet.
  int last_pid_ = 100;
  int64_t last_report_ = 0;
  uint64_t coordinators_ = 0;
  bool refuses_start_ = false;
};

}  // namespace lockstep::simulation
