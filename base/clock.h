// SPDX-License-Identifier: Apache-2.0
// Clocks as plain numbers.
#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep {

// Of a clock that never jumps, the same for all processes of a machine.
inline int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
inline int64_t steady_now_ms() { return steady_now_ns() / 1'000'000; }

// Since 1970.
inline int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace lockstep
