// SPDX-License-Identifier: Apache-2.0
// Workers of this machine: starts them as processes of this same program, starts a dead one again,
// ends them all. They die with this process however it ends.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace lockstep {

struct LauncherOptions {
  int workers = 1;
  int threads = 1;  // Of each.
  bool pin = true;  // Bind threads to processors where every thread can have its own.
  std::vector<std::string> devices;  // Of each worker, as its --device; empty: processors.
  double memory_fraction = 0;        // 0: each device's own default.
  std::string coordinator;           // The address that they dial.
  std::string token;  // Handed over in the environment, where other users cannot read it.
  std::string log_level;
  std::string weight_cache = "off";  // As `lockstep worker --weight-cache` takes it, and its limit.
  int64_t weight_cache_limit = 0;
};

// The thread that starts workers lives as long as the launcher: Linux sends a child its parent's
// death when the thread that made it ends. Thread-safe.
class Launcher {
 public:
  // `on_hopeless` is called, from the launcher's thread, when a worker keeps dying as soon as it is
  // started; the launcher then starts no more.
  Launcher(LauncherOptions options, std::function<void(absl::Status)> on_hopeless);
  // Ends all workers: politely, then after 2 s by force. They are gone when it returns.
  ~Launcher();

  // Process ids by worker, 0 for one that is down; for tests and for people.
  std::vector<pid_t> pids() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Child {
    pid_t pid = 0;
    absl::Time started = absl::InfinitePast();
    absl::Time start_after = absl::InfinitePast();
    int quick_deaths = 0;  // In a row.
  };

  void supervise() ABSL_LOCKS_EXCLUDED(mutex_);
  void start_due() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void reap() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void end_all();

  const LauncherOptions options_;
  const std::function<void(absl::Status)> on_hopeless_;
  mutable absl::Mutex mutex_;
  std::vector<Child> children_ ABSL_GUARDED_BY(mutex_);
  absl::Status hopeless_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep
