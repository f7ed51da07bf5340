// SPDX-License-Identifier: Apache-2.0
// Clocks as plain numbers.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace lockstep {

// The time of a clock that never jumps, the same in all processes of a machine.
inline int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
inline int64_t steady_now_ms() { return steady_now_ns() / 1'000'000; }

// The moment at which steady_now_ms() is `ms`.
inline std::chrono::steady_clock::time_point steady_time(int64_t ms) {
  return std::chrono::steady_clock::time_point(std::chrono::milliseconds(ms));
}

// The processor time of this thread alone.
inline int64_t thread_time_ns() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Seconds since 1970.
inline int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace lockstep
