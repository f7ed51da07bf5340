// SPDX-License-Identifier: Apache-2.0
// A pause that can be interrupted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace lockstep {

// Returns false if a stop was requested.
inline bool wait(std::chrono::milliseconds pause, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, pause, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace lockstep
