// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/task_pool.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/sockets/address.h"
#include "base/status.h"
#include "base/system/clock.h"

namespace lockstep {
namespace {

// A task's cost; no task is free.
int64_t cost_of(int64_t bytes) { return bytes + 1024; }

}  // namespace

TaskPool::TaskPool(const TaskPoolOptions& options) : options_(options) {
  LOCKSTEP_CHECK(options.threads > 0);
  const int all = options.threads > 1 ? options.threads + 1 : 1;
  for (int i = 0; i <= all; ++i) {
    threads_.emplace_back([this, i] { work(/*short_only=*/i == 0); });
  }
  threads_.emplace_back([this] { run_late_ones(); });
}

TaskPool::~TaskPool() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.notify_all();
    sooner_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

// Long tasks leave a part of the limits to short ones; short tasks may use all.
absl::Status TaskPool::check_room(const std::string& client, int64_t bytes) const {
  const auto check = [&](const char* owner, const Load& load, int64_t tasks, int64_t max) {
    if (load.tasks < tasks && load.bytes + bytes <= max) return absl::OkStatus();
    return resource_exhausted(
        "{} waiting to be read: must be at most {} with {} bytes, found {} with {} bytes; try "
        "again later",
        owner, tasks, max, load.tasks + 1, load.bytes + bytes);
  };
  const auto& [threads, tasks, max] = options_;
  const bool is_long = bytes > kLongBytes;
  const auto known = clients_.find(client);
  const Loads own = known == clients_.end() ? Loads() : known->second.loads;
  RETURN_IF_ERROR(check("requests of this client",
                        {own.all().tasks, is_long ? own.of_long.bytes : own.of_short.bytes},
                        tasks / 2, is_long ? max / 2 : max / 4));
  const auto network = networks_.find(network_of(client));
  if (network != networks_.end()) {
    RETURN_IF_ERROR(check("requests of this client's network", network->second.loads.all(),
                          tasks - tasks / 8, max - max / 8));
  }
  if (is_long) {
    RETURN_IF_ERROR(check("long requests", all_.of_long, tasks - tasks / 4, max - max / 4));
  }
  return check("requests", all_.all(), tasks, max);
}

absl::Status TaskPool::submit(const std::string& client, int64_t bytes, std::function<void()> task,
                              int64_t deadline_ms) {
  MutexLock lock(&mutex_);
  LOCKSTEP_CHECK(!stopping_);
  RETURN_IF_ERROR(check_room(client, bytes));
  count(client, bytes, 1);
  const std::string name = network_of(client);
  Client& own = clients_[client];
  own.last_tag = std::max(networks_[name].clock, own.last_tag) + cost_of(bytes);
  const Place place(own.last_tag, arrivals_++);
  add(&queue_of(bytes), name, place, {client, bytes, std::move(task), deadline_ms});
  changed_.notify_all();
  return absl::OkStatus();
}

void TaskPool::add(Queue* queue, const std::string& name, const Place& place, Task task) {
  Network& network = networks_[name];
  if (network.waiting++ == 0) network.last_tag = std::max(clock_, network.last_tag);
  if (task.deadline_ms != 0) {
    const auto added =
        deadlines_.emplace(std::pair(task.deadline_ms, place), Location{queue, name}).first;
    if (added == deadlines_.begin()) sooner_.notify_all();
  }
  queue->networks[name].tasks.emplace(place, std::move(task));
  this->place(queue, name);
}

void TaskPool::place(Queue* queue, const std::string& name) {
  const auto found = queue->networks.find(name);
  if (found == queue->networks.end()) return;
  Waiting& waiting = found->second;
  queue->order.erase(waiting.place);
  if (waiting.tasks.empty()) {
    queue->networks.erase(found);
    return;
  }
  const auto& [first, task] = *waiting.tasks.begin();
  waiting.place = {networks_[name].last_tag + cost_of(task.bytes), first.second};
  queue->order.emplace(waiting.place, name);
}

void TaskPool::count(const std::string& client, int64_t bytes, int64_t change) {
  for (Loads* loads : {&clients_[client].loads, &networks_[network_of(client)].loads, &all_}) {
    Load& load = bytes > kLongBytes ? loads->of_long : loads->of_short;
    load.tasks += change;
    load.bytes += change * bytes;
  }
}

TaskPool::Next TaskPool::next(bool short_only) {
  Next next;
  if (!short_.order.empty()) next = {&short_, short_.order.begin()->first};
  if (short_only) return next;
  for (const auto& [place, name] : long_.order) {
    if (networks_[name].running >= options_.threads && !stopping_) continue;
    return next.queue != nullptr && next.place < place ? next : Next{&long_, place};
  }
  return next;
}

void TaskPool::leave(const Task& task) {
  count(task.client, task.bytes, -1);
  const auto client = clients_.find(task.client);
  if (client->second.loads.all().tasks == 0) clients_.erase(client);
  const auto network = networks_.find(network_of(task.client));
  if (task.bytes > kLongBytes) {
    --network->second.running;
    changed_.notify_all();  // The network may have another long task now.
  }
  if (network->second.loads.all().tasks == 0) networks_.erase(network);
}

TaskPool::Task TaskPool::take(Queue* queue, const std::string& name, const Place& place) {
  Network& network = networks_[name];
  --network.waiting;
  if (queue == &long_) ++network.running;
  Task task = std::move(queue->networks[name].tasks.extract(place).mapped());
  deadlines_.erase({task.deadline_ms, place});
  this->place(queue, name);
  return task;
}

TaskPool::Task TaskPool::take_next(const Next& next) {
  const std::string name = next.queue->order.at(next.place);
  const Place first = next.queue->networks[name].tasks.begin()->first;
  Network& network = networks_[name];
  clock_ = std::max(clock_, next.place.first);
  network.last_tag = next.place.first;
  network.clock = std::max(network.clock, first.first);
  Task task = take(next.queue, name, first);
  for (Queue* each : {&short_, &long_}) place(each, name);
  return task;
}

void TaskPool::run(Task task) {
  task.run();
  task.run = nullptr;  // Destroys the task's values before its bytes count as free.
  MutexLock lock(&mutex_);
  leave(task);
}

void TaskPool::work(bool short_only) {
  while (true) {
    Task task;
    {
      MutexLock lock(&mutex_);
      Next next = this->next(short_only);
      for (; next.queue == nullptr && !stopping_; next = this->next(short_only))
        changed_.wait(&mutex_);
      if (next.queue == nullptr) return;
      task = take_next(next);
    }
    run(std::move(task));
  }
}

void TaskPool::run_late_ones() {
  while (true) {
    Task task;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ &&
             (deadlines_.empty() || steady_now_ms() < deadlines_.begin()->first.first)) {
        if (deadlines_.empty()) {
          sooner_.wait(&mutex_);
        } else {
          sooner_.wait_until(&mutex_, steady_time(deadlines_.begin()->first.first));
        }
      }
      if (stopping_) return;  // The other threads run the remaining tasks.
      const auto [deadline, waits] = *deadlines_.begin();
      task = take(waits.queue, waits.network, deadline.second);
    }
    run(std::move(task));
  }
}

}  // namespace lockstep
