// SPDX-License-Identifier: Apache-2.0
// Threads that tokenize texts, and parse and check messages. I/O threads never do this slow work.
// The queue is bounded and fair.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/text_map.h"
#include "base/threads/mutex.h"

namespace lockstep {

struct TaskPoolOptions {
  // The max number of long tasks of one network that run at once. If it is 2 or more, there is one
  // more thread than that: so tasks that take very long delay only others of their network. A
  // further thread takes only short tasks.
  int threads = 2;
  // The limits of all tasks that wait or run. A quarter is reserved for short tasks. One client may
  // have half of the tasks; its long tasks may have half of the bytes, its short ones a quarter.
  // All clients of one network (network_of()) together may have seven eighths.
  int64_t max_tasks = 4096;
  int64_t max_bytes = 256 << 20;
};

// Self-clocked fair queueing (Golestani 1994): networks (network_of()) get equal shares of the
// threads, measured in bytes, and so do the clients of a network. A task's cost is its size plus
// 1024 bytes. A task's tag is its cost plus the larger of two numbers: the clock and the last tag
// of its client. The task with the smallest tag is next; the clock is the tag of the task started
// last. There are two levels: the networks share one clock, with a tag for each network; the
// clients of a network share the network's own clock, with a tag for each client. So a client that
// sends many or large tasks delays only itself. Thread-safe.
class TaskPool {
 public:
  // A task with more bytes is long: it could occupy a thread for a noticeable time.
  static constexpr int64_t kLongBytes = 64 << 10;

  explicit TaskPool(const TaskPoolOptions& options);
  // Runs all accepted tasks before it returns.
  ~TaskPool();

  // Does not block. `bytes`: the task's size, a measure of its time and memory. A task that still
  // waits at `deadline_ms` (steady_now_ms(); 0: none) is run at that time, on a separate thread;
  // the task must check whether it is late. kResourceExhausted: too many tasks or bytes wait or run
  // already.
  absl::Status submit(const std::string& client, int64_t bytes, std::function<void()> task,
                      int64_t deadline_ms = 0) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Task {
    std::string client;
    int64_t bytes = 0;
    std::function<void()> run;
    int64_t deadline_ms = 0;
  };
  struct Load {
    int64_t tasks = 0;  // Waiting and running tasks.
    int64_t bytes = 0;
  };
  struct Loads {
    Load of_short, of_long;
    Load all() const { return {of_short.tasks + of_long.tasks, of_short.bytes + of_long.bytes}; }
  };
  struct Client {
    Loads loads;
    int64_t last_tag = 0;
  };
  struct Network {
    Loads loads;
    int64_t waiting = 0;   // Its tasks that wait.
    int64_t running = 0;   // Its long tasks that run.
    int64_t last_tag = 0;  // The tag of its next task is this plus that task's cost.
    int64_t clock = 0;     // The clock of its clients.
  };
  using Place = std::pair<int64_t, uint64_t>;  // The tag, then the order of arrival.
  struct Waiting {
    std::map<Place, Task> tasks;
    Place place;  // Decides the order of networks; made for the network's first task.
  };
  struct Queue {
    TextNodeMap<std::string, Waiting> networks;  // Those with waiting tasks.
    std::map<Place, std::string> order;          // Each network's place.
  };
  struct Next {
    Queue* queue = nullptr;  // Null: there is none.
    Place place;             // The network's place in the queue's order.
  };
  struct Location {  // The queue and the network where a task waits.
    Queue* queue = nullptr;
    std::string network;
  };

  absl::Status check_room(const std::string& client, int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void work(bool short_only) ABSL_LOCKS_EXCLUDED(mutex_);
  void run_late_ones() ABSL_LOCKS_EXCLUDED(mutex_);
  void add(Queue* queue, const std::string& name, const Place& place, Task task)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Task take(Queue* queue, const std::string& name, const Place& place)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the first task of this network, and moves the clocks.
  Task take_next(const Next& next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sorts the network into the queue's order again, after its tasks or its tag changed.
  void place(Queue* queue, const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void run(Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  Queue& queue_of(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return bytes > kLongBytes ? long_ : short_;
  }
  Next next(bool short_only) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void count(const std::string& client, int64_t bytes, int64_t change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void leave(const Task& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TaskPoolOptions options_;
  Mutex mutex_;
  ConditionVariable changed_;  // short_, long_, stopping_
  Queue short_ ABSL_GUARDED_BY(mutex_);
  Queue long_ ABSL_GUARDED_BY(mutex_);
  // The waiting tasks that have a deadline, by deadline and place.
  std::map<std::pair<int64_t, Place>, Location> deadlines_ ABSL_GUARDED_BY(mutex_);
  ConditionVariable sooner_;  // deadlines_ begins earlier, stopping_
  TextNodeMap<std::string, Client> clients_ ABSL_GUARDED_BY(mutex_);    // With tasks.
  TextNodeMap<std::string, Network> networks_ ABSL_GUARDED_BY(mutex_);  // With tasks.
  Loads all_ ABSL_GUARDED_BY(mutex_);
  int64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t arrivals_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep
