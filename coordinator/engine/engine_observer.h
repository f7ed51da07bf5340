// SPDX-License-Identifier: Apache-2.0
// An engine's reports while it works, for metrics and traces.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cluster/group.h"
#include "coordinator/engine/engine_request.h"
#include "coordinator/streams/stream.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// The activities of the engine's thread; together they cover all of its time.
enum class EnginePart {
  kIdle,    // There is nothing to do, or no group of workers.
  kWait,    // It waits for the workers.
  kDecide,  // It draws tokens from answers and chooses the next step.
  kSend,    // It sends the step.
  kEmit,    // It makes texts, finds stop strings, and appends events.
};
inline constexpr int kEngineParts = 5;
// "idle", "wait", "decide", "send", "tell".
const char* engine_part_name(EnginePart part);
using EngineTimes = std::array<int64_t, kEngineParts>;  // Nanoseconds by part.
// The time of the coordinator's own work in ns: all parts except kIdle and kWait.
int64_t coordinator_ns(const EngineTimes& times);

// A step that every rank has answered. Times are nanoseconds of a steady clock.
struct StepReport {
  uint64_t step = 0;
  int64_t sequences = 0;  // 0: a null step, which checks that every rank answers.
  int64_t rows = 0;
  int64_t sent_ns = 0;
  int64_t answered_ns = 0;
  std::vector<cluster::StepTimes> ranks;   // In rank order.
  std::vector<cluster::StepTrace> traces;  // In rank order; empty where the step was not traced.
  const GroupInfo* group = nullptr;        // The group that ran the step; valid during the call.
};

// Called by the engine's thread, in the order of events; must not block. A stream only identifies a
// request: an observer must not use it otherwise. Times are as in StepReport. An observer overrides
// what it needs.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // The engine accepted the request, which arrived at `submitted_ns`.
  virtual void on_submitted(const Stream* /*stream*/, const EngineRequest& /*request*/,
                            int64_t /*submitted_ns*/) {}
  // Follows on_submitted(): the request waits for a larger group and blocks no other request.
  virtual void on_set_aside(const Stream* /*stream*/) {}
  // The first step with a row of the request was sent.
  virtual void on_started(const Stream* /*stream*/, int64_t /*now_ns*/) {}
  virtual void on_event(const Stream* /*stream*/, const StreamEvent& /*event*/,
                        int64_t /*now_ns*/) {}
  // Follows each on_submitted() exactly once.
  virtual void on_closed(const Stream* /*stream*/, const absl::Status& /*status*/,
                         int64_t /*now_ns*/) {}
  virtual void on_step(const StepReport& /*report*/) {}
  // The engine's thread ends an activity. The next one begins at `end_ns`.
  virtual void on_part(EnginePart /*part*/, int64_t /*begin_ns*/, int64_t /*end_ns*/) {}
  // Whether the next step must be traced.
  virtual bool wants_trace() const { return false; }
};

// Forwards every call to several observers, in their order.
class EngineObservers final : public EngineObserver {
 public:
  // The observers outlive this object.
  explicit EngineObservers(std::vector<EngineObserver*> observers)
      : observers_(std::move(observers)) {}

  void on_submitted(const Stream* stream, const EngineRequest& request,
                    int64_t submitted_ns) override;
  void on_set_aside(const Stream* stream) override;
  void on_started(const Stream* stream, int64_t now_ns) override;
  void on_event(const Stream* stream, const StreamEvent& event, int64_t now_ns) override;
  void on_closed(const Stream* stream, const absl::Status& status, int64_t now_ns) override;
  void on_step(const StepReport& report) override;
  void on_part(EnginePart part, int64_t begin_ns, int64_t end_ns) override;
  bool wants_trace() const override;

 private:
  const std::vector<EngineObserver*> observers_;
};

}  // namespace lockstep
