// SPDX-License-Identifier: Apache-2.0
// A thread started before it is needed: later, the process may be unable to start one.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/threads/mutex.h"

namespace lockstep {

// Runs tasks one after the other, in the order of post(). Thread-safe.
class TaskThread {
 public:
  TaskThread() : thread_([this] { run(); }) {}
  // Returns after all tasks have run.
  ~TaskThread() {
    {
      MutexLock lock(&mutex_);
      ending_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void post(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }

 private:
  // Returns the next task; empty at the end.
  std::function<void()> take() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (tasks_.empty() && !ending_) changed_.wait(&mutex_);
    if (tasks_.empty()) return nullptr;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }
  void run() {
    while (const std::function<void()> task = take()) task();
  }

  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep
