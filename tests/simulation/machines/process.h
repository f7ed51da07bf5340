// SPDX-License-Identifier: Apache-2.0
// One worker's process: SessionCore on virtual time, connection after connection, as Session and
// worker_main run it; and the faults that a process has.
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
  // A stream whose first message may be sent at once. It outlives the simulation's events.
  virtual Link* open(Process* worker) = 0;
};

struct ProcessOptions {
  cluster::Hello hello;
  bool launched = false;    // By the coordinator, which it does not outlive.
  bool uninvited = false;   // It leaves again.
  bool unfit = false;       // It cannot be in one group with the others.
  int64_t startup_ms = 10;  // Until it dials.
};

// It outlives the simulation's events.
class Process {
 public:
  Process(Host* host, Port* port, ProcessOptions options,
          std::function<void(Process&, const ProcessEnd&)> on_exit);

  void start();
  void kill() { end({.how = "killed by signal 9", .from_outside = true}); }
  // Of what it computes.
  void die();
  // SIGTERM.
  void leave();

  int pid() const { return options_.hello.pid(); }
  const ProcessOptions& options() const { return options_; }
  bool alive() const { return !time_.ended(); }
  ProcessTime& time() { return time_; }
  Link* link() const { return link_; }  // Null: it has none.
  RankWork& work() { return work_; }
  const RankWork& work() const { return work_; }

  // ---- Faults ----
  void stop();
  void resume();
  bool stopped() const { return time_.stopped(); }
  // Since when nothing happens in it any more; -1: it runs.
  int64_t halted_at() const { return halted_at_; }
  // A fault lasts for `for_ms` from now: until some time after that it may be lost.
  void excuse(int64_t for_ms);
  bool excused() const;
  // It was told to leave.
  bool leaves() const { return leaves_; }
  // Nothing ever went wrong here.
  bool faultless() const { return excused_until_ < 0; }
  // No more faults: those that it has got over are no excuse for long.
  void calm();
  // The coordinator saw nothing since then, and so sees what came of a fault only now.
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
  KeptWeights kept_;
  std::optional<SessionCore> core_;
  std::optional<absl::Status> over_;  // What the session ended with.
  Link* link_ = nullptr;
  uint64_t last_epoch_ = 0;  // That it was assigned over this link.
  int64_t beat_at_ = 0;      // A tick is scheduled for then.
  uint64_t beats_ = 0;       // Tells it from those before.
  int64_t connected_at_ = 0;
  int64_t pause_ms_ = 0;  // Before it dials again.
  int64_t excused_until_ = -1;
  int64_t halted_at_ = -1;
  bool leaves_ = false;
};

}  // namespace lockstep::simulation
