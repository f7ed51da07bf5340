// SPDX-License-Identifier: Apache-2.0
#include "base/threads/thread_pool.h"

#include <chrono>

#include "base/check.h"
#include "base/system/cpu.h"
#include "base/system/topology.h"

namespace lockstep {
namespace {

// The time to spin: longer than the pause between two decode steps. Waking a processor that has
// halted costs 20 to 40 us on a virtual machine; a hand-over to one that spins costs 1 us.
constexpr auto kSpin = std::chrono::microseconds(300);
// These pauses take about 40 us; the awaited event usually happens within this time. After the
// pauses the thread yields. It does not yield earlier: from Linux 6.17 on, yielding to a busy
// program gives that program a slice of 3 ms. It does not yield much later: a thread of another
// rank may need this processor.
constexpr int kFirstPauses = 512;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Spins until `ready` or the limit; false if it did not become true.
template <typename Ready>
bool spin_until(const Ready& ready, std::chrono::nanoseconds limit) {
  for (int i = 0; i < kFirstPauses; ++i) {
    if (ready()) return true;
    pause();
  }
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause();
    }
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

uint32_t loop_of(uint64_t ticket) { return static_cast<uint32_t>(ticket >> 32); }
int64_t index_of(uint64_t ticket) { return static_cast<int64_t>(ticket & 0xffffffffu); }

}  // namespace

ThreadPool::ThreadPool(int threads, const std::vector<int>& processors) {
  spin_ = threads <= usable_cores();
  const bool bind = !processors.empty();
  LOCKSTEP_CHECK(!bind || processors.size() >= static_cast<size_t>(threads));
  for (int i = 1; i < threads; ++i) {
    helpers_.emplace_back([this, i, mine = bind ? std::vector{processors[i]} : processors] {
      if (!mine.empty()) bind_thread(mine);
      help(i);
    });
  }
  if (!bind) return;
  unbound_ = thread_processors();
  bind_thread({processors[0]});
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_.store(true);
  }
  wake_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
  if (!unbound_.empty()) bind_thread(unbound_);
}

void ThreadPool::run(int64_t count, TaskRef task) {
  LOCKSTEP_CHECK(count < int64_t{1} << 31);
  if (count <= 0) return;
  if (count == 1 || helpers_.empty()) {
    for (int64_t i = 0; i < count; ++i) task.call(task.body, i, 0);
    return;
  }
  publish(count, task);
  work(loop_of(ticket_.load(std::memory_order_relaxed)), 0);
  const auto all_done = [&] { return done_.load(std::memory_order_acquire) == count; };
  if (spin_) spin_until(all_done, kSpin);
  while (!all_done()) std::this_thread::yield();
}

void ThreadPool::publish(int64_t count, TaskRef task) {
  const uint64_t loop = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
  ticket_.store(loop << 32 | kClosed, std::memory_order_relaxed);
  count_.store(count, std::memory_order_release);
  body_.store(task.body, std::memory_order_release);
  call_.store(task.call, std::memory_order_release);
  done_.store(0, std::memory_order_relaxed);
  ticket_.store(loop << 32, std::memory_order_seq_cst);
  // A helper counts itself as a sleeper before it looks at the ticket for the last time. So either
  // the helper sees the new ticket, or this thread sees the sleeper.
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  { const std::lock_guard lock(mutex_); }
  wake_.notify_all();
}

void ThreadPool::work(uint32_t loop, int thread) {
  int64_t finished = 0;
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (loop_of(ticket) == loop) {
    const int64_t count = count_.load(std::memory_order_acquire);
    const void* body = body_.load(std::memory_order_acquire);
    const auto call = call_.load(std::memory_order_acquire);
    if (index_of(ticket) >= count) break;
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
    call(body, index_of(ticket), thread);
    ++finished;
    ticket = ticket_.load(std::memory_order_acquire);
  }
  if (finished != 0) done_.fetch_add(finished, std::memory_order_acq_rel);
}

uint32_t ThreadPool::next_loop(uint32_t last) {
  const auto changed = [&] {
    const uint64_t ticket = ticket_.load(std::memory_order_seq_cst);
    return (loop_of(ticket) != last && index_of(ticket) != static_cast<int64_t>(kClosed)) ||
           stopping_.load(std::memory_order_relaxed);
  };
  if (!spin_ || !spin_until(changed, kSpin)) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    wake_.wait(lock, changed);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
  return loop_of(ticket_.load(std::memory_order_acquire));
}

void ThreadPool::help(int thread) {
  uint32_t last = 0;
  while (true) {
    last = next_loop(last);
    if (stopping_.load(std::memory_order_relaxed)) return;
    work(last, thread);
  }
}

}  // namespace lockstep
