// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/faults.h"

#include <utility>

#include "base/status.h"
#include "proto/handshake.h"

namespace lockstep::simulation {
namespace {

constexpr int64_t kMaxFaults = 12;
constexpr int64_t kMaxSlowMs = 1'500;
constexpr int64_t kMaxAgain = 5;

}  // namespace

FaultCounts& FaultCounts::operator+=(const FaultCounts& other) {
  for (size_t i = 0; i < by_kind.size(); ++i) by_kind[i] += other.by_kind[i];
  for (size_t i = 0; i < by_phase.size(); ++i) by_phase[i] += other.by_phase[i];
  return *this;
}

Faults::Faults(Host* host, ClusterSide* cluster, int64_t calm_ms)
    : host_(*host), world_(host->world), cluster_(*cluster) {
  host_.on_phase = [this](Process& process, Phase phase) { entered(process, phase); };
  const int64_t count = world_.one_in(8) ? 0 : world_.between(1, kMaxFaults);
  for (int64_t i = 0; i < count; ++i) {
    const Drawn drawn = draw();
    world_.after(world_.one_in(4) ? 0 : world_.between(0, calm_ms - 1), [this, drawn] {
      if (drawn.phase == Phase::kAny) return strike(drawn, any_process());
      waiting_.push_back(drawn);
    });
  }
}

Faults::Drawn Faults::draw() {
  Drawn drawn{.fault = static_cast<Fault>(world_.between(0, kFaults - 1)),
              .phase = static_cast<Phase>(world_.between(0, kPhases + 2)),
              .two = world_.one_in(5)};
  if (drawn.fault == Fault::kLeave) drawn.again = world_.between(0, kMaxAgain);
  if (static_cast<int>(drawn.phase) >= kPhases) drawn.phase = Phase::kAny;
  // Only a rewrite while ranks load can give them weights of different checkpoints.
  if (drawn.fault == Fault::kRewrite && world_.one_in(2)) drawn.phase = Phase::kLoading;
  if (drawn.fault == Fault::kHoldUp && world_.one_in(2)) drawn.phase = Phase::kJoining;
  return drawn;
}

void Faults::calm() {
  waiting_.clear();
  host_.calm = true;
  cluster_.calm();
  cluster_.machine().calm();
  for (Process* process : cluster_.machine().alive()) process->calm();
}

void Faults::entered(Process& process, Phase phase) {
  if (host_.calm) return;
  for (auto drawn = waiting_.begin(); drawn != waiting_.end(); ++drawn) {
    if (drawn->phase != phase) continue;
    world_.after(world_.between(0, 12), [this, one = *drawn, &process] {
      if (!host_.calm) strike(one, process.alive() ? &process : any_process());
    });
    waiting_.erase(drawn);
    return;
  }
}

void Faults::entered_any(Phase phase) {
  if (Process* process = any_process(); process != nullptr) entered(*process, phase);
}

Process* Faults::any_process() {
  const std::vector<Process*> alive = cluster_.machine().alive();
  if (alive.empty()) return nullptr;
  return alive[static_cast<size_t>(world_.between(0, static_cast<int64_t>(alive.size()) - 1))];
}

void Faults::strike(const Drawn& drawn, Process* victim) {
  if (host_.calm) return;
  ++counts_.by_phase[static_cast<size_t>(drawn.phase)];
  inject(drawn.fault, victim);
  if (drawn.two) inject(draw().fault, any_process());
  if (drawn.again == 0) return;
  waiting_.push_back({.fault = drawn.fault, .phase = Phase::kStep, .again = drawn.again - 1});
}

// Some faults are noticed only after the limit for stuck workers. Their number is limited,
// so that all are noticed, one after the other, before the server must serve again.
bool Faults::affordable(Fault fault, const Process& victim) {
  const bool joins = victim.link() == nullptr || victim.link()->id == 0;
  const bool lasts = fault == Fault::kStuck || fault == Fault::kHalfOpenDown ||
                     ((fault == Fault::kStop || fault == Fault::kHalfOpenUp) && joins);
  if (!lasts) return true;
  if (patience_ms_ < host_.stuck_ms) return false;
  patience_ms_ -= host_.stuck_ms;
  return true;
}

void Faults::inject(Fault fault, Process* victim) {
  ++host_.faults;
  switch (fault) {
    case Fault::kRewrite:
      host_.rewrite();
      break;
    case Fault::kUnfit:
      join(/*unfit=*/true);
      break;
    case Fault::kGuest:
      join(/*unfit=*/false);
      break;
    case Fault::kNoStart:
      cluster_.machine().refuse_start();
      break;
    case Fault::kHoldUp:
      cluster_.hold_up(world_.one_in(3) ? world_.between(20, 540) : world_.between(540, 4'000));
      break;
    default:
      if (victim == nullptr || !victim->alive() || !affordable(fault, *victim)) return;
      world_.log("fault: {}, pid {}", kFaultNames[static_cast<int>(fault)], victim->pid());
      inject_process(fault, *victim);
      inject_link(fault, *victim);
  }
  ++counts_.by_kind[static_cast<size_t>(fault)];
}

void Faults::inject_process(Fault fault, Process& victim) {
  switch (fault) {
    case Fault::kKill:
      return victim.kill();
    case Fault::kLeave:
      return victim.leave();
    case Fault::kStop:
      victim.excuse(kForever);
      return victim.stop();
    case Fault::kPause: {
      const int64_t time = world_.between(50, 3'000);
      victim.excuse(time);
      victim.stop();
      return world_.after(time, [&victim] {
        if (victim.alive()) victim.resume();
      });
    }
    case Fault::kStuck:
      victim.excuse(kForever);
      return victim.work().get_stuck();
    case Fault::kDevice:
      victim.excuse(kForever);
      return victim.work().fail(absl::InternalError("the device failed"), /*device=*/true);
    case Fault::kError:
      victim.excuse(kForever);
      return victim.work().fail(world_.one_in(2)
                                    ? absl::ResourceExhaustedError("no memory for KV pages")
                                    : absl::InternalError("a kernel failed"),
                                /*device=*/false);
    case Fault::kBadDisk:
      victim.excuse(kForever);
      return victim.work().lose_disk();
    case Fault::kLie:
      victim.excuse(kForever);
      return victim.work().lie(static_cast<RankWork::Lie>(world_.between(1, RankWork::kLies)));
    default:
      return;
  }
}

void Faults::inject_link(Fault fault, Process& victim) {
  Link* const link = victim.link();
  if (link == nullptr) return;
  switch (fault) {
    case Fault::kCut:
      victim.excuse(0);
      return link->cut();
    case Fault::kHalfOpenUp:
    case Fault::kHalfOpenDown:
      victim.excuse(kForever);
      fault == Fault::kHalfOpenUp ? link->up.drop() : link->down.drop();
      // Keepalive pings come every 5 s, and an answer is due within 10 s.
      return world_.after(world_.between(5'000, 15'000), [link] { link->notice(); });
    case Fault::kSlow: {
      const int64_t time = world_.between(100, 3'000);
      victim.excuse(time);
      link->up.slow_down(world_.between(0, kMaxSlowMs));
      link->down.slow_down(world_.between(0, kMaxSlowMs));
      return world_.after(time, [link] { link->calm(); });
    }
    case Fault::kEcho:
      link->up.echo();
      return link->down.echo();
    default:
      return;
  }
}

void Faults::join(bool unfit) {
  cluster::Hello hello = Machine::hello();
  if (unfit) {
    switch (world_.between(0, 2)) {
      case 0:
        hello.set_host("elsewhere");
        hello.clear_data_address();
        break;
      case 1:
        hello.set_device("cuda 0");
        hello.set_numeric_class("cuda.exact.v1");
        break;
      default:
        hello.set_protocol(kProtocolVersion - 1);
    }
  }
  Process& process = cluster_.machine().start_by_hand(std::move(hello), /*uninvited=*/true, unfit);
  world_.after(world_.between(100, 4'000), [&process] { process.kill(); });
}

}  // namespace lockstep::simulation
