// SPDX-License-Identifier: Apache-2.0
// A worker's stream to a test that acts as the coordinator.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/threads/mutex.h"
#include "worker/session/link.h"

namespace lockstep {

// The worker's session calls the overridden methods, and the test calls all others. Any thread may
// call them.
class FakeLink final : public Link {
 public:
  bool read(cluster::CoordinatorMessage* message) override {
    const MutexLock lock(&mutex_);
    while (to_worker_.empty() && !over_) changed_.wait(&mutex_);
    if (over_) return false;
    *message = std::move(to_worker_.front());
    to_worker_.pop_front();
    return true;
  }
  bool write(const cluster::WorkerMessage& message) override {
    const MutexLock lock(&mutex_);
    while (stalled_ && !over_) changed_.wait(&mutex_);
    if (over_ || finished_) return false;
    (message.has_heartbeat() ? heartbeats_ : from_worker_).push_back(message);
    changed_.notify_all();
    return true;
  }
  void finish_writing() override {
    const MutexLock lock(&mutex_);
    finished_ = true;
    changed_.notify_all();
  }
  void cancel() override { close(); }
  absl::Status finish() override { return refusal; }

  // The status that finish() returns.
  absl::Status refusal;

  void send(cluster::CoordinatorMessage message) {
    const MutexLock lock(&mutex_);
    to_worker_.push_back(std::move(message));
    changed_.notify_all();
  }
  // The next message that is no heartbeat; nullopt after the worker has ended.
  std::optional<cluster::WorkerMessage> receive() { return next(from_worker_); }
  std::optional<cluster::WorkerMessage> heartbeat() { return next(heartbeats_); }
  // Drops the heartbeats that have arrived, so that heartbeat() returns one that was sent later.
  void drop_heartbeats() {
    const MutexLock lock(&mutex_);
    heartbeats_.clear();
  }
  // Blocks writes from now on, as if the other side read nothing.
  void stall() {
    const MutexLock lock(&mutex_);
    stalled_ = true;
  }
  void close() {
    const MutexLock lock(&mutex_);
    over_ = true;
    changed_.notify_all();
  }
  bool finished() {
    const MutexLock lock(&mutex_);
    return finished_;
  }

 private:
  std::optional<cluster::WorkerMessage> next(std::deque<cluster::WorkerMessage>& from) {
    const MutexLock lock(&mutex_);
    while (from.empty() && !over_ && !finished_) changed_.wait(&mutex_);
    if (from.empty()) return std::nullopt;
    cluster::WorkerMessage message = std::move(from.front());
    from.pop_front();
    return message;
  }

  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<cluster::CoordinatorMessage> to_worker_ ABSL_GUARDED_BY(mutex_);
  std::deque<cluster::WorkerMessage> from_worker_;  // Also guarded by mutex_.
  std::deque<cluster::WorkerMessage> heartbeats_;
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep
