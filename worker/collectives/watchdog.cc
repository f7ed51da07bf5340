// SPDX-License-Identifier: Apache-2.0
// A call only stores its deadline, which costs almost nothing. The watchdog's thread polls the
// deadline, and abort() wakes that thread.
#include "worker/collectives/watchdog.h"

#include <utility>

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kPause{20};
// Counts polls, not time: while the process is suspended, neither this thread nor the call's thread
// advances.
constexpr int kPollsBeforeEnd = 20;

}  // namespace

Watchdog::Watchdog(std::function<void()> end, const std::atomic<bool>* cancelled)
    : end_(std::move(end)), cancelled_(cancelled), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::begin(Clock::time_point deadline) {
  const std::lock_guard lock(mutex_);
  calling_ = true;
  polls_ = 0;
  deadline_ = deadline;
}

Watchdog::Verdict Watchdog::over() {
  const std::lock_guard lock(mutex_);
  calling_ = false;
  return verdict_;
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    const bool late = Clock::now() > deadline_, ends = aborted();
    const bool waits = calling_ && ++polls_ > kPollsBeforeEnd;
    if (waits && verdict_ == Verdict::kInTime && (late || ends)) {
      verdict_ = ends ? Verdict::kAborted : Verdict::kLate;
      end_();
    }
    changed_.wait_for(lock, kPause);
  }
}

}  // namespace lockstep
