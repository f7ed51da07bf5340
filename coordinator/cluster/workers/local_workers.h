// SPDX-License-Identifier: Apache-2.0
// The workers that ClusterCore starts on this machine: which are up, and when a dead one is
// restarted. If a worker dies right after its start, the wait before the next start grows.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

inline constexpr int64_t kQuickDeathMs = 2'000;  // A shorter life counts as a quick death.
inline constexpr int64_t kMaxRestartMs = 5'000;  // The longest wait before a start.
inline constexpr int64_t kLeaveMs = 1'000;       // A worker's time to exit after its stream ended.
// Before the first group is formed, this many quick deaths of one worker in a row end all attempts.
inline constexpr int kFatalQuickDeaths = 5;

// One thread at a time; `now` is ClusterCore's.
class LocalWorkers {
 public:
  // A worker that has not joined within `join_ms` after its start is killed.
  LocalWorkers(int count, int64_t join_ms) : join_ms_(join_ms), workers_(count) {}

  // Workers to start now. Each is returned once, and again only after exited() was called for it.
  std::vector<int> take_due(int64_t now);
  // Running workers to kill now. Each is returned once.
  std::vector<int> take_to_kill(int64_t now);

  void started(int64_t now, int index, int pid, bool has_joined);
  void joined(int index);
  // The worker has no stream any more: it is killed after `in_ms`, unless it has ended.
  void left(int64_t now, int index, int64_t in_ms);
  // The worker ended, or could not be started. Returns its number of quick deaths in a row.
  int exited(int64_t now, int index);

  // The index of the running worker with this process id; -1: none.
  int find(int pid) const;
  // 0: the worker does not run.
  int pid(int index) const { return workers_[index].pid; }

  // The coordinator was delayed: times for joining count from now.
  void restart_join_times(int64_t now);
  // A group was formed: quick deaths are forgotten. Then serve() is called for each of its workers.
  void formed();
  void serve(int index);
  // Whether the worker is in the last formed group, and this object did not ask to kill it.
  bool serves(int index) const { return workers_[index].serves; }

 private:
  enum class State { kDown, kStarting, kUp };
  struct Worker {
    State state = State::kDown;
    int pid = 0;
    int64_t since = 0;     // When it was started; while it is down, when it may be started.
    int64_t kill_at = -1;  // -1: never.
    bool joining = false;
    bool serves = false;
    int quick_deaths = 0;  // In a row.
  };

  const int64_t join_ms_;
  std::vector<Worker> workers_;
};

}  // namespace lockstep
