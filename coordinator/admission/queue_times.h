// SPDX-License-Identifier: Apache-2.0
// Estimates a request's wait in the engine's queue from how fast earlier requests began. A request
// that would begin after its deadline, or after the max wait, is refused at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/text_map.h"
#include "base/threads/mutex.h"
#include "coordinator/engine/engine_observer.h"

namespace lockstep {

// An engine observer; thread-safe.
//
// A request waits for all requests of better priorities. Within a priority, clients take turns
// (scheduler/fair_queue.h): if N requests of a client wait, the last of them waits for at most N
// requests of each other client. So a client that sends much does not make others wait longer.
class QueueTimes final : public EngineObserver {
 public:
  explicit QueueTimes(int64_t max_wait_ms) : max_wait_ms_(max_wait_ms) {}

  // The error is kResourceExhausted with a retry_after(): after that time, so few requests would
  // be before this one that it would begin in time.
  absl::Status check(const EngineRequest& request, int64_t now_ns) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The time until this request would begin; 0 if it is unknown, or if no request is before this
  // one.
  int64_t wait_ms(const EngineRequest& request, int64_t now_ns) const ABSL_LOCKS_EXCLUDED(mutex_);
  // How many requests check() has refused.
  int64_t refused() const { return refused_.load(); }

  void on_submitted(const Stream* stream, const EngineRequest& request,
                    int64_t submitted_ns) override;
  void on_set_aside(const Stream* stream) override;
  void on_started(const Stream* stream, int64_t now_ns) override;
  void on_closed(const Stream* stream, const absl::Status& status, int64_t now_ns) override;

 private:
  // The priority and client of a waiting request.
  struct Place {
    int32_t priority = 0;
    std::string client;
  };
  // The waiting requests of one priority.
  struct Line {
    int64_t waiting = 0;
    TextMap<std::string, int64_t> by_client;
    std::map<int64_t, int64_t> clients_with;  // [n]: how many clients have n or more waiting.
  };

  // Advances the time; earlier counts decay over kMemoryNs.
  void pass(int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes a waiting request; false: it was not waiting.
  bool leave(const Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void count(const Place& place, int64_t change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t max_wait_ms_;  // 0: no bound.
  mutable std::atomic<int64_t> refused_{0};
  mutable Mutex mutex_;
  std::unordered_map<const Stream*, Place> waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<int32_t, Line> lines_ ABSL_GUARDED_BY(mutex_);  // By priority.
  double busy_ns_ ABSL_GUARDED_BY(mutex_) = 0;             // Time with waiting requests.
  double started_ ABSL_GUARDED_BY(mutex_) = 0;             // Requests that began in that time.
  int64_t now_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep
