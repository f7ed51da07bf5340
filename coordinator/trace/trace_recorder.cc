// SPDX-License-Identifier: Apache-2.0
#include "coordinator/trace/trace_recorder.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep {
namespace {

constexpr size_t kMaxSpans = 64;  // Max spans between two steps; the last ones are kept.

}  // namespace

void TraceRecorder::on_part(EnginePart part, int64_t begin_ns, int64_t end_ns) {
  if (begin_ns == end_ns) return;
  if (!engine_.empty() && engine_.back().part == part) {
    engine_.back().end_ns = end_ns;
    return;
  }
  if (engine_.size() == kMaxSpans) engine_.erase(engine_.begin());
  engine_.push_back({part, begin_ns, end_ns});
}

void TraceRecorder::on_step(const StepReport& report) {
  const bool traced = !report.traces.empty();
  if (report.sequences == 0 && !traced) return;
  const auto step = std::make_shared<RecordedStep>();
  step->report = report;
  step->report.group = nullptr;
  step->engine = std::exchange(engine_, {});
  engine_.reserve(step->engine.size());
  step->ranks = report.group->members;
  {
    MutexLock lock(&mutex_);
    if (steps_.size() == kMaxSteps) steps_.pop_front();
    steps_.push_back(step);
  }
  if (!traced) return;
  traced_.fetch_add(1, std::memory_order_relaxed);
  int wanted = wanted_.load(std::memory_order_relaxed);
  while (wanted > 0 && !wanted_.compare_exchange_weak(wanted, wanted - 1)) {
  }
}

void TraceRecorder::trace_next(int steps) {
  int wanted = wanted_.load(std::memory_order_relaxed);
  while (wanted < steps && !wanted_.compare_exchange_weak(wanted, steps)) {
  }
}

RecordedSteps TraceRecorder::last(int steps) const {
  MutexLock lock(&mutex_);
  const auto count = std::min<std::ptrdiff_t>(steps, std::ssize(steps_));
  return {steps_.end() - count, steps_.end()};
}

RecordedSteps TraceRecorder::last_traced(int steps) const {
  MutexLock lock(&mutex_);
  auto end = steps_.end();
  while (end != steps_.begin() && (*std::prev(end))->report.traces.empty()) --end;
  const auto count = std::min<std::ptrdiff_t>(steps, end - steps_.begin());
  return {end - count, end};
}

}  // namespace lockstep
