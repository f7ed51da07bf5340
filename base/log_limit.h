// SPDX-License-Identifier: Apache-2.0
// Bounds the rate of log lines that untrusted clients can cause: one line per period, which says
// how many events it stands for.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "base/threads/mutex.h"

namespace lockstep {

// Thread-safe.
class LogLimit {
 public:
  using Clock = std::chrono::steady_clock;
  explicit LogLimit(std::chrono::milliseconds period) : period_(period) {}

  // Counts one event. Returns the number of events since the last line, this one included, if the
  // caller may log a line now; else 0.
  int64_t count(Clock::time_point now = Clock::now()) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    ++events_;
    if (now < next_) return 0;
    next_ = now + period_;
    return std::exchange(events_, 0);
  }

 private:
  const std::chrono::milliseconds period_;
  Mutex mutex_;
  int64_t events_ ABSL_GUARDED_BY(mutex_) = 0;
  Clock::time_point next_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::min();
};

}  // namespace lockstep
