// SPDX-License-Identifier: Apache-2.0
// The last steps of an engine, for GET /trace. The coordinator's activities and the ranks'
// durations are always kept; operators' times only while a client requests them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/threads/mutex.h"
#include "coordinator/engine/engine_observer.h"

namespace lockstep {

// An uninterrupted activity of the engine's thread. Times are nanoseconds of a steady clock.
struct EngineSpan {
  EnginePart part = EnginePart::kIdle;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

struct RecordedStep {
  StepReport report;               // Without its group.
  std::vector<EngineSpan> engine;  // From the answer of the step before to the answer of this one.
  std::shared_ptr<const std::vector<RankInfo>> ranks;  // See GroupInfo::members.
};
using RecordedSteps = std::vector<std::shared_ptr<const RecordedStep>>;

// An engine observer; any thread may read it.
class TraceRecorder final : public EngineObserver {
 public:
  static constexpr int kMaxSteps = 256;  // Kept steps.

  void on_step(const StepReport& report) override;
  void on_part(EnginePart part, int64_t begin_ns, int64_t end_ns) override;
  bool wants_trace() const override { return wanted_.load(std::memory_order_relaxed) > 0; }

  // Traces at least the next `steps` steps.
  void trace_next(int steps);
  void stop_tracing() { wanted_ = 0; }
  // The number of steps traced so far.
  int64_t traced() const { return traced_.load(std::memory_order_relaxed); }
  // The last `steps` kept steps, in order. Null steps are kept only if they were traced.
  RecordedSteps last(int steps) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Like last(), but ends with the last traced step.
  RecordedSteps last_traced(int steps) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::atomic<int> wanted_ = 0;
  std::atomic<int64_t> traced_ = 0;
  std::vector<EngineSpan> engine_;  // Since the last step; used by the engine's thread.
  mutable Mutex mutex_;
  std::deque<std::shared_ptr<const RecordedStep>> steps_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep
