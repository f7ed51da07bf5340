// SPDX-License-Identifier: Apache-2.0
// A worker's process on virtual time: it runs a SessionCore for one connection after another, as
// Session and worker_main do. It also has the faults of a process.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "coordinator/cluster/workers/process_end.h"
#include "tests/simulation/machines/link.h"
#include "tests/simulation/machines/rank_work.h"
#include "worker/session/session_core.h"

namespace lockstep::simulation {

inline constexpr int64_t kForever = int64_t{1} << 40;  // Milliseconds.

// The coordinator's port.
class Port {
 public:
  virtual ~Port() = default;
  // Opens a stream, to which the worker may write at once. It exists until the simulation ends.
  virtual Link* open(Process* worker) = 0;
};

struct ProcessOptions {
  cluster::Hello hello;
  bool launched = false;    // The coordinator launched it; it ends with the coordinator.
  bool uninvited = false;   // It is a guest, which leaves again.
  bool unfit = false;       // It cannot be in one group with the others.
  int64_t startup_ms = 10;  // The time from its start until it dials.
};

// Events of the simulation refer to this object, so it must outlive them.
class Process {
 public:
  Process(Host* host, Port* port, ProcessOptions options,
          std::function<void(Process&, const ProcessEnd&)> on_exit);

  void start();
  void kill() { end({.how = "killed by signal 9", .from_outside = true}); }
  // Ends the process as a crash in a computation would.
  void die();
  // SIGTERM.
  void leave();

  int pid() const { return options_.hello.pid(); }
  const ProcessOptions& options() const { return options_; }
  bool alive() const { return !time_.ended(); }
  ProcessTime& time() { return time_; }
  Link* link() const { return link_; }  // Null if there is none.
  RankWork& work() { return work_; }
  const RankWork& work() const { return work_; }

  // ---- Faults ----
  void stop();
  void resume();
  bool stopped() const { return time_.stopped(); }
  // The time at which the process stopped or ended; -1: it runs.
  int64_t halted_at() const { return halted_at_; }
  // A fault lasts for `for_ms` from now. The worker may be lost until some time after the fault.
  void excuse(int64_t for_ms);
  bool excused() const;
  // The process was asked to leave.
  bool leaves() const { return leaves_; }
  // The process never had a fault.
  bool faultless() const { return excused_until_ < 0; }
  // Ends all faults. Faults that are over excuse the process only for a short time.
  void calm();
  // The coordinator was held up from `since` until now, so it sees a fault's effects only now.
  void noticed_late(int64_t since);

 private:
  void dial();
  template <typename Event>
  void on(const Event& event);
  void take(SessionAction action);
  void beat_later();
  void end_session();
  void end(const ProcessEnd& end);

  Host& host_;
  Port& port_;
  const ProcessOptions options_;
  const std::function<void(Process&, const ProcessEnd&)> on_exit_;
  ProcessTime time_;
  RankWork work_;
  WeightsInMemory in_memory_;
  std::optional<SessionCore> core_;
  std::optional<absl::Status> over_;  // The session's result.
  Link* link_ = nullptr;
  uint64_t last_epoch_ = 0;  // The last epoch that was assigned over this link.
  int64_t beat_at_ = 0;      // The time of the scheduled tick.
  uint64_t beats_ = 0;       // The number of the scheduled tick; earlier ticks do nothing.
  int64_t connected_at_ = 0;
  int64_t pause_ms_ = 0;  // The pause before the process dials again.
  int64_t excused_until_ = -1;
  int64_t halted_at_ = -1;
  bool leaves_ = false;
};

}  // namespace lockstep::simulation
