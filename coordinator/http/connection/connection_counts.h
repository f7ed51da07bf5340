// SPDX-License-Identifier: Apache-2.0
// Counts the open connections: all of them, and those of each client network.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/text_map.h"
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
    ++by_network_[network].all;
    return ++all_;
  }
  // The connection may no longer be closed for newer ones.
  void keep(const std::string& network) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    ++by_network_[network].kept;
  }
  void remove(const std::string& network, bool was_kept) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const auto own = by_network_.find(network);
    if (was_kept) --own->second.kept;
    if (--own->second.all == 0) by_network_.erase(own);
    --all_;
  }
  OpenConnections of(const std::string& network) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const auto own = by_network_.find(network);
    return {.all = all_, .of_network = own == by_network_.end() ? 0 : own->second.all};
  }
  // The number of the network's connections that are not kept.
  int64_t closable_of(const std::string& network) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const auto own = by_network_.find(network);
    return own == by_network_.end() ? 0 : own->second.all - own->second.kept;
  }

 private:
  struct Counts {
    int64_t all = 0;
    int64_t kept = 0;
  };

  std::atomic<int64_t> all_{0};
  Mutex mutex_;
  TextNodeMap<std::string, Counts> by_network_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::http
