// SPDX-License-Identifier: Apache-2.0
// The work of a worker's process, on virtual time: weights in memory, KV pages of its own, and one
// piece of work at a time, as in Session and Worker.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tests/simulation/machines/host.h"
#include "tests/simulation/machines/process_time.h"
#include "worker/session/session_actions.h"

namespace lockstep::simulation {

// Events of the simulation refer to this object, so it must outlive them.
class RankWork {
 public:
  using Done = std::function<void(WorkResult)>;

  RankWork(Host* host, Process* process, ProcessTime* time)
      : host_(*host), process_(*process), time_(*time) {}

  void run(Work work, Done done);
  // Handles AbortRunning: the running work ends soon, unless it is stuck.
  void abort();
  // The process ended.
  void end();
  // Checks whether a wait has timed out.
  void check_time();

  bool busy() const { return work_.has_value(); }
  const HeartbeatStats& heartbeat_stats() const { return heartbeat_stats_; }
  // The checkpoint of the weights in memory; 0: none.
  int checkpoint() const { return weights_.checkpoint; }

  bool has_weights() const { return weights_.whole; }

  // ---- Faults ----
  enum class Lie { kNone, kStep, kToken, kManyTokens, kLogits, kNoPages, kTrace, kPreloaded };
  static constexpr int kLies = 7;
  void lie(Lie lie) { lie_ = lie; }
  bool lies() const { return lie_ != Lie::kNone; }
  void get_stuck() { stuck_ = true; }
  // Loads fail until calm().
  void lose_disk() { disk_ = false; }
  // How many loads in a row failed because of the disk. After several failures the core avoids the
  // worker, even if its disk is repaired.
  int failed_loads() const { return failed_loads_; }
  bool stuck() const { return stuck_; }
  // The next work fails with this status; with `device`, all later work does, too.
  void fail(absl::Status status, bool device);
  // Ends the faults that have had no effect yet.
  void calm();

 private:
  struct Weights {
    int checkpoint = 0;
    std::string program;
    bool whole = false;  // The load has ended.
  };

  void later(int64_t delay, std::function<void()> what);
  // Calls part() for each part (of the instructions or weights), `each_ms` apart, and then then().
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
  void give_wrong_answer(cluster::StepResult* result);
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
  int checked_ = 0;                      // The folder's checkpoint at the last check.
  std::shared_ptr<Collective> meeting_;  // The group in whose meet() this rank waits; null: none.
  std::shared_ptr<Collective> collective_;  // The last group whose ranks this rank has met.
  Weights weights_;
  std::optional<FakeWorkers> state_;  // KV pages, since Start.
  std::optional<cluster::StepResult> result_;
  HeartbeatStats heartbeat_stats_;

  bool stuck_ = false;
  bool disk_ = true;
  int failed_loads_ = 0;
  Lie lie_ = Lie::kNone;
  absl::Status failure_;
  bool device_ = false;  // failure_ is a failure of the device.
  bool failed_ = false;  // The device's failure was reported.
};

}  // namespace lockstep::simulation
