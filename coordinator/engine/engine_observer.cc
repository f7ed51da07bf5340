// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/engine_observer.h"

#include <algorithm>

namespace lockstep {

const char* engine_part_name(EnginePart part) {
  switch (part) {
    case EnginePart::kIdle:
      return "idle";
    case EnginePart::kWait:
      return "wait";
    case EnginePart::kDecide:
      return "decide";
    case EnginePart::kSend:
      return "send";
    case EnginePart::kEmit:
      return "tell";
  }
  return "";
}

int64_t coordinator_ns(const EngineTimes& times) {
  int64_t sum = 0;
  for (const EnginePart part : {EnginePart::kDecide, EnginePart::kSend, EnginePart::kEmit}) {
    sum += times[static_cast<size_t>(part)];
  }
  return sum;
}

void EngineObservers::on_submitted(const Stream* stream, const EngineRequest& request,
                                   int64_t submitted_ns) {
  for (EngineObserver* one : observers_) one->on_submitted(stream, request, submitted_ns);
}

void EngineObservers::on_set_aside(const Stream* stream) {
  for (EngineObserver* one : observers_) one->on_set_aside(stream);
}

void EngineObservers::on_started(const Stream* stream, int64_t now_ns) {
  for (EngineObserver* one : observers_) one->on_started(stream, now_ns);
}

void EngineObservers::on_event(const Stream* stream, const StreamEvent& event, int64_t now_ns) {
  for (EngineObserver* one : observers_) one->on_event(stream, event, now_ns);
}

void EngineObservers::on_closed(const Stream* stream, const absl::Status& status, int64_t now_ns) {
  for (EngineObserver* one : observers_) one->on_closed(stream, status, now_ns);
}

void EngineObservers::on_step(const StepReport& report) {
  for (EngineObserver* one : observers_) one->on_step(report);
}

void EngineObservers::on_part(EnginePart part, int64_t begin_ns, int64_t end_ns) {
  for (EngineObserver* one : observers_) one->on_part(part, begin_ns, end_ns);
}

bool EngineObservers::wants_trace() const {
  return std::ranges::any_of(observers_, [](const auto* one) { return one->wants_trace(); });
}

}  // namespace lockstep
