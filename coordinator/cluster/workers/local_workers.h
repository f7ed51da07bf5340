// SPDX-License-Identifier: Apache-2.0
// The workers that ClusterCore starts on this machine: which are up, and when a dead one is started
// again. One that dies as soon as it is started waits longer each time.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

inline constexpr int64_t kQuickDeathMs = 2'000;  // Who lived shorter died at once.
inline constexpr int64_t kMaxRestartMs = 5'000;  // The longest wait before a start.
inline constexpr int64_t kLeaveMs = 1'000;       // For ending by itself once its stream is over.
inline constexpr int kQuickDeathsHopeless = 5;   // In a row, before there ever was a group.

// One thread at a time; `now` as of ClusterCore.
class LocalWorkers {
 public:
  // A worker that has not joined `join_ms` after it was started is killed.
  LocalWorkers(int count, int64_t join_ms) : join_ms_(join_ms), workers_(count) {}

  // Workers to be started now. Each is given once until exited() is called for it.
  std::vector<int> take_due(int64_t now);
  // Workers that run and must not any more. Each is given once.
  std::vector<int> take_condemned(int64_t now);

  void started(int64_t now, int index, int pid, bool has_joined);
  void joined(int index);
  // It has no stream any more: it is killed `in_ms` from now unless it has ended.
  void left(int64_t now, int index, int64_t in_ms);
  // It ended, or could not be started. How often it died quickly in a row.
  int exited(int64_t now, int index);

  // Which worker has this process id; -1: none that is up.
  int find(int pid) const;
  // 0: it is not up.
  int pid(int index) const { return workers_[index].pid; }

  // The machine was held up: times for joining count from now.
  void forgive(int64_t now);
  // A group was formed: early deaths are forgotten, and nobody is in it before serve() says so.
  void formed();
  void serve(int index);
  // It is in the last group that was formed, and we did not end it.
  bool serves(int index) const { return workers_[index].serves; }

 private:
  enum class State { kDown, kStarting, kUp };
  struct Worker {
    State state = State::kDown;
    int pid = 0;
    int64_t since = 0;     // When it was started; while down, when it may be.
    int64_t kill_at = -1;  // -1: never.
    bool joining = false;
    bool serves = false;
    int quick_deaths = 0;  // In a row.
  };

  const int64_t join_ms_;
  std::vector<Worker> workers_;
};

}  // namespace lockstep
