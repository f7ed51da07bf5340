// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/workers/local_workers.h"

#include <algorithm>

namespace lockstep {

std::vector<int> LocalWorkers::take_due(int64_t now) {
  std::vector<int> due;
  for (size_t index = 0; index < workers_.size(); ++index) {
    Worker& worker = workers_[index];
    if (worker.state != State::kDown || now < worker.since) continue;
    worker.state = State::kStarting;
    worker.since = now;
    due.push_back(static_cast<int>(index));
  }
  return due;
}

std::vector<int> LocalWorkers::take_to_kill(int64_t now) {
  std::vector<int> to_kill;
  for (size_t index = 0; index < workers_.size(); ++index) {
    Worker& worker = workers_[index];
    if (worker.state != State::kUp || worker.kill_at < 0 || now < worker.kill_at) continue;
    worker.kill_at = -1;
    worker.serves = false;
    to_kill.push_back(static_cast<int>(index));
  }
  return to_kill;
}

void LocalWorkers::started(int64_t now, int index, int pid, bool has_joined) {
  workers_[index].state = State::kUp;
  workers_[index].pid = pid;
  workers_[index].since = now;
  workers_[index].joining = !has_joined;
  workers_[index].kill_at = has_joined ? -1 : now + join_ms_;
}

void LocalWorkers::joined(int index) {
  workers_[index].joining = false;
  workers_[index].kill_at = -1;
}

void LocalWorkers::left(int64_t now, int index, int64_t in_ms) {
  workers_[index].joining = false;
  workers_[index].kill_at = now + in_ms;
  if (in_ms == 0) workers_[index].serves = false;
}

int LocalWorkers::exited(int64_t now, int index) {
  Worker& worker = workers_[index];
  const bool quick = now - worker.since < kQuickDeathMs;
  const int deaths = quick ? worker.quick_deaths + 1 : 0;
  const int64_t wait =
      deaths > 0 ? std::min(int64_t{50} << std::min(deaths, 10), kMaxRestartMs) : 0;
  worker = {.since = now + wait, .quick_deaths = deaths};
  return deaths;
}

int LocalWorkers::find(int pid) const {
  for (size_t index = 0; index < workers_.size(); ++index) {
    if (pid > 0 && workers_[index].pid == pid) return static_cast<int>(index);
  }
  return -1;
}

void LocalWorkers::restart_join_times(int64_t now) {
  for (Worker& worker : workers_) {
    if (worker.joining) worker.kill_at = now + join_ms_;
  }
}

void LocalWorkers::formed() {
  for (Worker& worker : workers_) {
    worker.quick_deaths = 0;
    worker.serves = false;
  }
}

void LocalWorkers::serve(int index) { workers_[index].serves = true; }

}  // namespace lockstep
