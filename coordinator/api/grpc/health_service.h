// SPDX-License-Identifier: Apache-2.0
// The standard health service: SERVING while there is a group of workers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/threads/mutex.h"
#include "coordinator/engine/engine.h"
#include "coordinator/http/exchange.h"

namespace lockstep {

// Thread-safe; no method blocks.
class HealthService {
 public:
  static constexpr std::string_view kPrefix = "/grpc.health.v1.Health/";

  // The engine outlives it.
  explicit HealthService(Engine* engine);
  ~HealthService();

  // Answers a call whose path begins with kPrefix.
  void answer(const std::shared_ptr<http::Exchange>& exchange) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Wakes the watchers when the engine's state changes.
  void follow() ABSL_LOCKS_EXCLUDED(mutex_);
  bool is_ready() const { return engine_->stats().ready; }
  absl::Status check(const std::shared_ptr<http::Exchange>& exchange) const;
  absl::Status watch(const std::shared_ptr<http::Exchange>& exchange) ABSL_LOCKS_EXCLUDED(mutex_);

  Engine* const engine_;
  const std::shared_ptr<std::atomic<bool>> ready_ = std::make_shared<std::atomic<bool>>(false);
  Mutex mutex_;
  ConditionVariable stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Each has a token that ends with its call.
  struct Watcher {
    std::weak_ptr<void> call;
    std::function<void()> wake;
  };
  std::vector<Watcher> watchers_ ABSL_GUARDED_BY(mutex_);
  size_t next_sweep_ ABSL_GUARDED_BY(mutex_) = 16;  // At this size, ended ones are removed.
  std::thread thread_;
};

}  // namespace lockstep
