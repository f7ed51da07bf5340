// SPDX-License-Identifier: Apache-2.0
// Gets memory from the system for the next KV pages before a step writes to them. The first touch
// of 2 MiB takes 0.1 ms, or 5 ms in a virtual machine whose host has not given it that memory yet;
// sequences that began together all reach new memory in the same step.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/threads/mutex.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

class PagePrefaulter {
 public:
  // A thread gets memory for this many bytes of pages beyond those in use. Before the first step it
  // works without pauses, later for at most a twentieth of the time. The views are of host memory,
  // which outlives this object.
  static constexpr int64_t kBytes = int64_t{128} << 20;
  explicit PagePrefaulter(std::vector<StateView> views, int64_t bytes = kBytes);
  ~PagePrefaulter();
  PagePrefaulter(const PagePrefaulter&) = delete;
  PagePrefaulter& operator=(const PagePrefaulter&) = delete;

  // From now on pages with ids below this are in use. For one thread; does not wait for the memory.
  void use(int64_t pages);

 private:
  void run();
  // Gets memory for pages [first, end). It changes no byte, so a step may write there meanwhile.
  // False: there are no more pages, or the system lacks the call for it (steps then touch pages
  // first), or the thread must stop.
  bool populate(int64_t first, int64_t end);
  // Waits, so that steps have the CPU most of the time; false: stop.
  bool rest_after(std::chrono::nanoseconds work);

  const std::vector<StateView> views_;
  const int64_t ahead_;  // How many pages beyond those in use must have memory.
  int64_t used_ = 0;     // Used by the steps' thread.
  Mutex mutex_;
  ConditionVariable changed_;
  int64_t wanted_ ABSL_GUARDED_BY(mutex_);  // The pages that must have memory.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Constructed last: it uses the other members.
};

}  // namespace lockstep
