// SPDX-License-Identifier: Apache-2.0
// GET /trace: has the next steps traced, waits for them, and answers with the last ones.
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

// What a query asks for: "steps=8&timeout=2".
struct TraceQuery {
  int steps = 64;      // 1 to TraceRecorder::kMaxSteps.
  int timeout_s = 10;  // 0 to 60.
  bool waits = false;  // A timeout was given: it is waited for although nobody sends requests.
};
// kInvalidArgument, one line.
absl::StatusOr<TraceQuery> parse_trace_query(std::string_view query);

// Has a thread that waits. Outlives who calls its routes; requests that wait when it goes away are
// dropped, which closes their connections.
class TraceRequests {
 public:
  // Both outlive it.
  TraceRequests(TraceRecorder* recorder, const Engine* engine);
  ~TraceRequests();

  // An answer comes as soon as so many steps were traced, the time is over, or the engine has
  // nothing to do: then it has those steps that there are, traced or not.
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
