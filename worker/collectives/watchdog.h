// SPDX-License-Identifier: Apache-2.0
// Ends calls that may block for ever, from a thread of its own.
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

  // `end` makes the call under way return. It is called at most once, on the watchdog's thread:
  // when a call has lasted beyond its deadline, or abort() was called before or during it, or
  // `cancelled` was true: until forget_cancelled(), null: nobody cancels. It may free what the call
  // uses: so a call is ended only after some 400 ms, when one that waits for nobody has returned.
  Watchdog(std::function<void()> end, const std::atomic<bool>* cancelled);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Around a call, by one thread. over() waits for an `end` under way; once it has said anything
  // but kInTime, or aborted() has said true, there may be no further call.
  void begin(Clock::time_point deadline);
  Verdict over();

  // Any thread; never blocks.
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
  int looks_ = 0;  // At the call under way.
  bool stopped_ = false;
  Clock::time_point deadline_;
  Verdict verdict_ = Verdict::kInTime;
  std::thread thread_;
};

}  // namespace lockstep
