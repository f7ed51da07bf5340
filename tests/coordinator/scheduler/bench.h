// SPDX-License-Identifier: Apache-2.0
// A scheduler by itself, driven step by step.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "coordinator/scheduler/scheduler.h"
#include "tests/coordinator/helpers.h"

namespace lockstep {

// A scheduler whose steps draw token 7 at every output.
class Bench {
 public:
  explicit Bench(const SchedulerLimits& limits) : scheduler_(limits) {}

  Sequence* add(int64_t prompt_tokens, int32_t max_tokens) {
    return add(request_of(static_cast<int32_t>(requests_.size()), prompt_tokens, max_tokens))[0];
  }
  // Adds a request and returns its choices.
  std::vector<Sequence*> add(EngineRequest request, Prefix prefix = {}) {
    requests_.push_back(std::make_unique<PreparedRequest>(std::move(request), 100, prefix));
    std::vector<Sequence*> choices;
    for (int32_t i = 0; i < requests_.back()->request().n; ++i) {
      sequences_.push_back(
          std::make_unique<Sequence>(*requests_.back(), i, 1000, nullptr, nullptr));
      choices.push_back(sequences_.back().get());
    }
    scheduler_.add(choices);
    return choices;
  }

  // Runs one step; returns (sequence, rows) in the order of the batch.
  std::vector<std::pair<Sequence*, int64_t>> step() {
    const Batch batch = scheduler_.schedule();
    std::vector<std::pair<Sequence*, int64_t>> rows;
    for (Sequence* sequence : batch.sequences) rows.emplace_back(sequence, sequence->planned());
    scheduler_.computed(batch, step_ns(batch.work));
    for (Sequence* sequence : batch.sequences) {
      if (sequence->remaining() > 0) continue;
      if (sequence->append(7)) scheduler_.remove(sequence);
    }
    return rows;
  }

  // From now on a step takes 100 ms plus 1 ms per row; if not `known`, its time is unknown.
  void take_time(bool known) { timed_ = known; }
  static int64_t step_ns_of(const StepWork& work) { return (100 + work.rows) * 1'000'000; }

  Scheduler& scheduler() { return scheduler_; }

 private:
  int64_t step_ns(const StepWork& work) const { return timed_ ? step_ns_of(work) : 0; }

  bool timed_ = false;
  std::vector<std::unique_ptr<PreparedRequest>> requests_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  Scheduler scheduler_;
};

}  // namespace lockstep
