// SPDX-License-Identifier: Apache-2.0
// The time that tests wait for other threads and processes.
#pragma once

#include <chrono>
#include <thread>

namespace lockstep {

// This is no requirement on speed: a busy machine may need most of this time. Most tests that wait
// have a longer limit in ctest (TIMEOUT of lockstep_test), so after kPatience they can still report
// the event for which they waited.
inline constexpr std::chrono::seconds kPatience{100};

// Polls every `pause` until the condition holds or kPatience is over. Returns whether it held.
template <typename Condition>
bool becomes_true(const Condition& condition,
                  std::chrono::milliseconds pause = std::chrono::milliseconds(1)) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

}  // namespace lockstep
