// SPDX-License-Identifier: Apache-2.0
// This machine's workers: starts them as processes of this program on request, reports when one
// ends, and ends them all. They die with this process, however this process ends.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/threads/mutex.h"
#include "coordinator/cluster/transport.h"

namespace lockstep {

struct LauncherOptions {
  int workers = 1;
  // The arguments of `lockstep worker` number `index`, except the coordinator's address, the rank
  // and the parent, which the launcher adds.
  std::function<std::vector<std::string>(int index)> arguments;
  std::string coordinator;  // Its address.
  std::string token;        // Passed in the environment, where other users cannot read it.
};

// One thread starts, kills and reaps: Linux signals a parent's death when the thread that made the
// child ends, so this thread lives as long as the launcher. Thread-safe.
class Launcher final : public WorkerProcesses {
 public:
  // `listener` is called on the launcher's thread and outlives the launcher.
  Launcher(LauncherOptions options, ProcessListener* listener);
  // Ends all workers: by SIGTERM, after 2 s by SIGKILL. Returns when they have ended.
  ~Launcher() override;

  void start(int index) override ABSL_LOCKS_EXCLUDED(mutex_);
  void kill(int index) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Process ids by worker, 0 for one that is down; for tests and logs.
  std::vector<pid_t> pids() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Order {
    bool start = false;  // Else kill.
    int index = 0;
  };

  void supervise() ABSL_LOCKS_EXCLUDED(mutex_);
  void follow(const Order& order) ABSL_LOCKS_EXCLUDED(mutex_);
  void reap() ABSL_LOCKS_EXCLUDED(mutex_);
  void end_all() ABSL_LOCKS_EXCLUDED(mutex_);

  const LauncherOptions options_;
  ProcessListener* const listener_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Order> orders_ ABSL_GUARDED_BY(mutex_);
  std::vector<pid_t> pids_ ABSL_GUARDED_BY(mutex_);  // Written by the launcher's thread alone.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep
