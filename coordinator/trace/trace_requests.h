// SPDX-License-Identifier: Apache-2.0
// GET /trace: traces the next steps, waits for them, and answers with the last ones.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/threads/mutex.h"
#include "coordinator/engine/engine.h"
#include "coordinator/http/router.h"
#include "coordinator/trace/trace_recorder.h"

namespace lockstep {

// A query's parameters: "steps=8&timeout=2".
struct TraceQuery {
  int steps = 64;      // 1 to TraceRecorder::kMaxSteps.
  int timeout_s = 10;  // 0 to 60.
  bool waits = false;  // A timeout was given: waits even if no requests arrive.
};
// kInvalidArgument, one line.
absl::StatusOr<TraceQuery> parse_trace_query(std::string_view query);

// Has a thread that waits for traced steps. Outlives the users of its routes; the destructor drops
// waiting requests, which closes their connections.
class TraceRequests {
 public:
  // The recorder and the engine outlive this object.
  TraceRequests(TraceRecorder* recorder, const Engine* engine);
  ~TraceRequests();

  // An answer is sent as soon as `steps` steps were traced, the time is over, or the engine is
  // idle. In the last two cases it has the available steps, traced or not.
  std::vector<http::Route> routes();

 private:
  struct Waiting {
    std::shared_ptr<http::Exchange> exchange;
    TraceQuery query;
    int64_t traced_before = 0;
    std::chrono::steady_clock::time_point deadline;
  };

  void take(const std::shared_ptr<http::Exchange>& exchange) ABSL_LOCKS_EXCLUDED(mutex_);
  void run() ABSL_LOCKS_EXCLUDED(mutex_);
  bool is_traced(const Waiting& waiting) const;
  bool is_due(const Waiting& waiting) const;
  void answer(const Waiting& waiting) const;

  TraceRecorder* const recorder_;
  const Engine* const engine_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::list<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep
