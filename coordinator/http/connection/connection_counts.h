// SPDX-License-Identifier: Apache-2.0
// Counts the open connections: all of them, and those of each client network.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/threads/mutex.h"
#include "coordinator/ports/listener.h"

namespace lockstep::http {

// Thread-safe.
class ConnectionCounts {
 public:
  int64_t all() const { return all_; }
  // Returns the number of all connections.
  int64_t add(const std::string& network) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    ++by_network_[network];
    return ++all_;
  }
  void remove(const std::string& network) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const auto own = by_network_.find(network);
    if (--own->second == 0) by_network_.erase(own);
    --all_;
  }
  OpenConnections of(const std::string& network) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const auto own = by_network_.find(network);
    return {.all = all_, .of_network = own == by_network_.end() ? 0 : own->second};
  }

 private:
  std::atomic<int64_t> all_{0};
  Mutex mutex_;
  std::unordered_map<std::string, int64_t> by_network_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::http
