// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/task_pool.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int64_t kTaskCost = 1024;  // Beside its bytes: no task is free.

}  // namespace

TaskPool::TaskPool(const TaskPoolOptions& options) : options_(options) {
  LOCKSTEP_CHECK(options.threads > 0);
  for (int i = 0; i <= options.threads; ++i) {
    threads_.emplace_back([this, i] { work(/*short_only=*/i == 0); });
  }
}

TaskPool::~TaskPool() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Status TaskPool::check_room(const Load& client, int64_t bytes) const {
  const auto check = [&](const char* whose, const Load& load, int64_t share) {
    if (load.tasks < options_.max_tasks / share && load.bytes + bytes <= options_.max_bytes / share)
      return absl::OkStatus();
    return resource_exhausted(
        "{} waiting to be read: want at most {} requests of {} bytes together, found {} of {}; try "
        "again later",
        whose, options_.max_tasks / share, options_.max_bytes / share, load.tasks + 1,
        load.bytes + bytes);
  };
  RETURN_IF_ERROR(check("requests of this connection", client, 2));
  return check("requests", all_, 1);
}

absl::Status TaskPool::submit(const std::string& client, int64_t bytes,
                              std::function<void()> task) {
  MutexLock lock(&mutex_);
  LOCKSTEP_CHECK(!stopping_);
  const auto known = clients_.find(client);
  RETURN_IF_ERROR(check_room(known == clients_.end() ? Load() : known->second, bytes));
  Load& load = clients_[client];
  for (Load* each : {&load, &all_}) {
    each->tasks += 1;
    each->bytes += bytes;
  }
  load.last_tag = std::max(clock_, load.last_tag) + bytes + kTaskCost;
  (bytes > kLongBytes ? long_ : short_)
      .emplace(std::pair(load.last_tag, arrivals_++), Task{client, bytes, std::move(task)});
  changed_.notify_all();
  return absl::OkStatus();
}

TaskPool::Queue* TaskPool::next(bool short_only) {
  if (short_only || long_.empty()) return short_.empty() ? nullptr : &short_;
  if (short_.empty()) return &long_;
  return short_.begin()->first < long_.begin()->first ? &short_ : &long_;
}

void TaskPool::leave(const Task& task) {
  const auto client = clients_.find(task.client);
  for (Load* each : {&client->second, &all_}) {
    each->tasks -= 1;
    each->bytes -= task.bytes;
  }
  if (client->second.tasks == 0) clients_.erase(client);
}

void TaskPool::work(bool short_only) {
  while (true) {
    Task task;
    {
      MutexLock lock(&mutex_);
      Queue* queue = next(short_only);
      for (; queue == nullptr && !stopping_; queue = next(short_only)) changed_.wait(&mutex_);
      if (queue == nullptr) return;
      clock_ = std::max(clock_, queue->begin()->first.first);
      task = std::move(queue->extract(queue->begin()).mapped());
    }
    task.run();
    task.run = nullptr;  // What it holds goes before its bytes are free again.
    MutexLock lock(&mutex_);
    leave(task);
  }
}

}  // namespace lockstep
