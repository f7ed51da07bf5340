// SPDX-License-Identifier: Apache-2.0
// What a worker's process computes, on virtual time: weights in memory, KV pages of its own, and
// one piece of work at a time, as Session and Worker do it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tests/simulation/machines/host.h"
#include "tests/simulation/machines/process_time.h"
#include "worker/session/session_actions.h"

namespace lockstep::simulation {

// It outlives the simulation's events.
class RankWork {
 public:
  using Done = std::function<void(WorkResult)>;

  RankWork(Host* host, Process* process, ProcessTime* time)
      : host_(*host), process_(*process), time_(*time) {}

  void run(Work work, Done done);
  // As an AbortRunning: the work under way ends soon, unless it is stuck.
  void abort();
  // The process ended.
  void end();
  // Some time has passed.
  void check_time();

  bool busy() const { return work_.has_value(); }
  const Vitals& vitals() const { return vitals_; }
  // Of the weights in memory; 0: there are none.
  int checkpoint() const { return weights_.checkpoint; }

  bool has_weights() const { return weights_.whole; }

  // ---- Faults ----
  enum class Lie { kNone, kStep, kToken, kManyTokens, kLogits, kNoPages, kTrace, kPreloaded };
  static constexpr int kLies = 7;
  void lie(Lie lie) { lie_ = lie; }
  bool lies() const { return lie_ != Lie::kNone; }
  void get_stuck() { stuck_ = true; }
  // Its loads fail until calm().
  void lose_disk() { disk_ = false; }
  // In a row, because of its disk: also a repaired one is mistrusted then.
  int failed_loads() const { return failed_loads_; }
  bool stuck() const { return stuck_; }
  // What it does next fails for this reason; all that follows as well if it is the device's.
  void fail(absl::Status status, bool device);
  // Faults that have not shown themselves do not happen.
  void calm();

 private:
  struct Weights {
    int checkpoint = 0;
    std::string program;
    bool whole = false;  // The load has ended.
  };

  void later(int64_t delay, std::function<void()> what);
  // Instructions, or parts of the weights; `then` follows the last.
  void advance(int parts, int64_t each_ms, std::function<void()> part, std::function<void()> then);
  void check();
  void load();
  void preload();
  void load_or_keep();
  void read_weights();
  void loaded();
  void fail();
  void start();
  void step();
  bool is_deadly(const cluster::Step& step) const;
  void compute(std::function<void()> then);
  void answer_step();
  void answer_logits();
  void finish(WorkResult result);
  void trace(cluster::StepResult* result) const;
  void tell_lie(cluster::StepResult* result);
  int64_t draw_ms();
  int64_t pages();

  Host& host_;
  Process& process_;
  ProcessTime& time_;
  int rank_ = 0;
  int ranks_ = 1;
  std::optional<Work> work_;
  Done done_;
  uint64_t works_ = 0;
  int checked_ = 0;                         // What the folder had at the last check.
  std::shared_ptr<Collective> meeting_;     // It is in there now.
  std::shared_ptr<Collective> collective_;  // Of the group that it met last.
  Weights weights_;
  std::optional<FakeWorkers> state_;  // KV pages, since Start.
  std::optional<cluster::StepResult> result_;
  Vitals vitals_;

  bool stuck_ = false;
  bool disk_ = true;
  int failed_loads_ = 0;
  Lie lie_ = Lie::kNone;
  absl::Status failure_;
  bool device_ = false;  // That is the device's.
  bool failed_ = false;  // It has been seen.
};

}  // namespace lockstep::simulation
