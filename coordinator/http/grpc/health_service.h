// SPDX-License-Identifier: Apache-2.0
// The standard health service. Its owner knows the answers, and reports when one has changed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/threads/mutex.h"
#include "coordinator/http/exchange.h"

namespace lockstep {

// Thread-safe; no method blocks.
class HealthService {
 public:
  static constexpr std::string_view kPrefix = "/grpc.health.v1.Health/";
  static constexpr size_t kMaxRequestBytes = 1024;

  // Whether a service is ready; nullopt: there is no such service. Called by I/O threads, until the
  // last call has ended; must not block.
  using IsReady = std::function<std::optional<bool>(const std::string& service)>;
  explicit HealthService(IsReady is_ready) : is_ready_(std::move(is_ready)) {}

  // Answers a call whose path begins with kPrefix.
  void answer(const std::shared_ptr<http::Exchange>& exchange) ABSL_LOCKS_EXCLUDED(mutex_);
  // Every open Watch asks `is_ready` again, and reports a change.
  void wake_watchers() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status check(const std::shared_ptr<http::Exchange>& exchange) const;
  absl::Status watch(const std::shared_ptr<http::Exchange>& exchange) ABSL_LOCKS_EXCLUDED(mutex_);

  const IsReady is_ready_;
  Mutex mutex_;
  // An open Watch: `call` expires when the call ends.
  struct Watcher {
    std::weak_ptr<void> call;
    std::function<void()> wake;
  };
  std::vector<Watcher> watchers_ ABSL_GUARDED_BY(mutex_);
  size_t next_sweep_ ABSL_GUARDED_BY(mutex_) = 16;  // At this size, ended calls are removed.
};

}  // namespace lockstep
