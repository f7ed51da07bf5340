// SPDX-License-Identifier: Apache-2.0
// A thread that ends calls which would otherwise block for ever.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace lockstep {

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Verdict { kInTime, kLate, kAborted };

  // `end` must make the running call return. The watchdog's thread calls `end` at most once: if a
  // call lasts beyond its deadline, if abort() was called before or during the call, or if
  // `cancelled` is true. `cancelled` may be null, and is not read after forget_cancelled(). `end`
  // may free memory that the call uses. So the watchdog calls `end` no earlier than about 400 ms
  // after the call began: a call that waits for no peer has returned by then.
  Watchdog(std::function<void()> end, const std::atomic<bool>* cancelled);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // One thread calls these around a call. over() waits for a running `end`. If over() returns a
  // value other than kInTime, or aborted() returns true, the thread must make no further call.
  void begin(Clock::time_point deadline);
  Verdict over();

  // Callable from any thread; never blocks.
  void abort() {
    aborted_.store(true);
    changed_.notify_all();
  }
  bool aborted() const {
    const std::atomic<bool>* const cancelled = cancelled_.load();
    return aborted_.load() || (cancelled != nullptr && cancelled->load());
  }
  void forget_cancelled() { cancelled_.store(nullptr); }

 private:
  void watch();

  const std::function<void()> end_;
  std::atomic<bool> aborted_{false};
  std::atomic<const std::atomic<bool>*> cancelled_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool calling_ = false;
  int polls_ = 0;  // Polls during the current call.
  bool stopped_ = false;
  Clock::time_point deadline_;
  Verdict verdict_ = Verdict::kInTime;
  std::thread thread_;
};

}  // namespace lockstep
