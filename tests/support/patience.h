// SPDX-License-Identifier: Apache-2.0
// How long tests wait for what other threads and processes do.
#pragma once

#include <chrono>
#include <thread>

namespace lockstep {

// No bound on how fast anything is: a busy machine may take most of it. It is shorter than ctest's
// limit for the tests that wait (cmake/lockstep.cmake), so that they can still say for what.
inline constexpr std::chrono::seconds kPatience{100};

// Asks every `pause` until the condition holds or kPatience is over. Whether it held.
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
