// SPDX-License-Identifier: Apache-2.0
// The faults of a simulation: drawn by the seed, in every phase of a worker, sometimes two at once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/simulation/coordinator/cluster_side.h"

namespace lockstep::simulation {

enum class Fault {
  kKill,
  kLeave,         // SIGTERM, sometimes to one worker after another.
  kStop,          // SIGSTOP, without a SIGCONT.
  kPause,         // SIGSTOP, and a SIGCONT later.
  kStuck,         // The worker's work never ends, but the worker sends heartbeats.
  kDevice,        // The device fails, and the process with it.
  kError,         // The worker's next work fails.
  kCut,           // Both sides see their stream closed.
  kHalfOpenUp,    // The worker's messages are lost.
  kHalfOpenDown,  // The messages to the worker are lost.
  kSlow,          // Messages take up to 1.5 s.
  kLie,           // The worker gives an impossible answer.
  kRewrite,       // The checkpoint's folder changes.
  kUnfit,         // A worker of another host, numeric class or protocol joins.
  kGuest,         // A worker that fits joins uninvited, and leaves.
  kNoStart,       // The next worker cannot be launched.
  kEcho,          // A message of an old epoch arrives again.
  kHoldUp,        // The coordinator's own process is held up.
  kBadDisk,       // The worker cannot load weights any more.
};
inline constexpr int kFaults = 19;
inline constexpr const char* kFaultNames[kFaults] = {"killed",
                                                     "asked to leave",
                                                     "stopped",
                                                     "paused",
                                                     "stuck",
                                                     "device failed",
                                                     "error",
                                                     "link cut",
                                                     "half-open up",
                                                     "half-open down",
                                                     "slow link",
                                                     "lie",
                                                     "rewritten checkpoint",
                                                     "unfit worker",
                                                     "guest",
                                                     "not started",
                                                     "echo",
                                                     "coordinator held up",
                                                     "bad disk"};

struct FaultCounts {
  std::array<int64_t, kFaults> by_kind = {};
  std::array<int64_t, kPhases> by_phase = {};

  FaultCounts& operator+=(const FaultCounts& other);
};

class Faults {
 public:
  // Faults strike until `calm_ms`, when calm() must be called.
  Faults(Host* host, ClusterSide* cluster, int64_t calm_ms);

  void calm();
  void draining() { entered_any(Phase::kDraining); }
  const FaultCounts& counts() const { return counts_; }

 private:
  struct Drawn {
    Fault fault = Fault::kKill;
    Phase phase = Phase::kAny;
    bool two = false;   // Another fault strikes at the same time.
    int64_t again = 0;  // Repetitions, each in the next step.
  };
  Drawn draw();
  // A worker has entered a phase for which a fault may wait.
  void entered(Process& process, Phase phase);
  void entered_any(Phase phase);
  void strike(const Drawn& drawn, Process* victim);
  void inject(Fault fault, Process* victim);
  void inject_process(Fault fault, Process& victim);
  void inject_link(Fault fault, Process& victim);
  void join(bool unfit);
  Process* any_process();
  bool affordable(Fault fault, const Process& victim);

  Host& host_;
  World& world_;
  ClusterSide& cluster_;
  std::vector<Drawn> waiting_;    // Faults that wait until a worker enters their phase.
  int64_t patience_ms_ = 10'000;  // The time left for faults that are noticed only after stuck_ms.
  FaultCounts counts_;
};

}  // namespace lockstep::simulation
