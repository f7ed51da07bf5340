// SPDX-License-Identifier: Apache-2.0
// How long a request would wait in the engine's queue, learned from how fast those before it began:
// one that would begin after its deadline, or after longer than anybody waits, is refused at once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/threads/mutex.h"
#include "coordinator/engine/engine_observer.h"

namespace lockstep {

// Observes an engine; thread-safe.
//
// A request waits for all of better priorities. Of its own, clients take turns
// (scheduler/fair_queue.h), so that it waits for as many of each client's as its own client has
// waiting, itself included: who sends much does not make others wait longer.
class QueueTimes final : public EngineObserver {
 public:
  explicit QueueTimes(int64_t max_wait_ms) : max_wait_ms_(max_wait_ms) {}

  // kResourceExhausted, with retry_after(): when those before it would be few enough.
  absl::Status check(const Request& request, int64_t now_ns) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Until this request would begin; 0 where little is known, or nothing is before it.
  int64_t wait_ms(const Request& request, int64_t now_ns) const ABSL_LOCKS_EXCLUDED(mutex_);

  void on_submitted(const Stream* stream, const Request& request, int64_t came_ns) override;
  void on_set_aside(const Stream* stream) override;
  void on_started(const Stream* stream, int64_t now_ns) override;
  void on_closed(const Stream* stream, const absl::Status& status, int64_t now_ns) override;

 private:
  // Whose request waits.
  struct Place {
    int32_t priority = 0;
    std::string client;
  };
  // Those of one priority.
  struct Line {
    int64_t waiting = 0;
    std::unordered_map<std::string, int64_t> by_client;
    std::map<int64_t, int64_t> clients_with;  // [n]: how many clients have n or more waiting.
  };

  // What counts until now is forgotten over kMemoryNs.
  void pass(int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It waits no more. Whether it did.
  bool leave(const Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void count(const Place& place, int64_t change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t max_wait_ms_;  // 0: no bound.
  mutable Mutex mutex_;
  std::unordered_map<const Stream*, Place> waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<int32_t, Line> lines_ ABSL_GUARDED_BY(mutex_);  // By priority.
  double busy_ns_ ABSL_GUARDED_BY(mutex_) = 0;             // In which something waited.
  double started_ ABSL_GUARDED_BY(mutex_) = 0;             // In that time.
  int64_t now_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep
