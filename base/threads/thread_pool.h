// SPDX-License-Identifier: Apache-2.0
// Threads that are started once and share the indices of one loop at a time. A loop costs about a
// microsecond while the threads still spin after the loop before.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/threads/parallel.h"

namespace lockstep {

// One thread at a time (the engine's) calls run() and works as thread 0. run() allocates nothing. A
// thread without work spins briefly, yields, and then sleeps; if there are more threads than usable
// cores, no thread spins.
class ThreadPool final : public Parallel {
 public:
  // At least 1 thread; the caller is one of them. With `processors`, one per thread, thread i is
  // bound to the i-th; the caller too, until the pool ends.
  explicit ThreadPool(int threads, const std::vector<int>& processors = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void run(int64_t count, TaskRef task) override;  // count < 2^31.
  int threads() const override { return static_cast<int>(helpers_.size()) + 1; }

 private:
  void help(int thread);
  void work(uint32_t loop, int thread);
  uint32_t next_loop(uint32_t last);
  void publish(int64_t count, TaskRef task);

  // The upper half is the loop's number, the lower half its next index. An index is claimed by
  // compare-and-swap, so a late thread cannot take one from a loop that it has not seen.
  alignas(64) std::atomic<uint64_t> ticket_{kClosed};
  alignas(64) std::atomic<int64_t> done_{0};
  // Written only while the ticket is closed. Stores are release and loads acquire: a thread that
  // reads a new value also sees that its old ticket is invalid.
  alignas(64) std::atomic<int64_t> count_{0};
  std::atomic<const void*> body_{nullptr};
  std::atomic<void (*)(const void*, int64_t, int)> call_{nullptr};

  std::atomic<bool> stopping_{false};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool spin_ = false;
  std::vector<int> unbound_;  // The caller's earlier affinity; empty if threads are not bound.
  std::vector<std::thread> helpers_;

  static constexpr uint64_t kClosed = 0xffffffffu;
};

}  // namespace lockstep
