// SPDX-License-Identifier: Apache-2.0
// All processes of workers: those that the coordinator launches, as launcher.h does it, and those
// that somebody starts by hand, and starts again when they end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/cluster/transport.h"
#include "tests/simulation/machines/process.h"

namespace lockstep::simulation {

class Machine final : public WorkerProcesses {
 public:
  // `coordinator`: the time of the launcher's process.
  Machine(Host* host, Port* port, ProcessListener* listener, ProcessTime* coordinator)
      : host_(*host), port_(*port), listener_(*listener), coordinator_(*coordinator) {}

  // A worker that fits.
  static cluster::Hello hello();
  // One that waits for a place.
  static cluster::Hello spare();

  void start(int index) override;
  void kill(int index) override;
  // Launched workers die with it, and no news of them comes any more.
  void coordinator_ended();

  Process& start_by_hand(cluster::Hello hello, bool uninvited, bool unfit);
  // The next one that is launched cannot be.
  void refuse_start() { refuses_start_ = true; }
  // Workers started by hand that would not recover by themselves are started again; guests leave.
  void calm();

  const std::vector<std::unique_ptr<Process>>& processes() const { return processes_; }
  std::vector<Process*> alive() const;

 private:
  Process& create(ProcessOptions options);
  void on_exit(Process& process, const ProcessEnd& end);
  // News of processes come in order.
  void report(int64_t delay, std::function<void()> what);
  int64_t draw_startup();

  Host& host_;
  Port& port_;
  ProcessListener& listener_;
  ProcessTime& coordinator_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<Process*> launched_;  // By index; null: none was.
  int last_pid_ = 100;
  int64_t last_report_ = 0;
  uint64_t coordinators_ = 0;
  bool refuses_start_ = false;
};

}  // namespace lockstep::simulation
