// SPDX-License-Identifier: Apache-2.0
// Takes memory from the system for the KV pages that come next, before a step writes to them. The
// first touch of 2 MiB costs 0.1 ms, or 5 in a virtual machine to which the host has not given that
// memory yet; sequences that began together all reach new memory in the same step.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/threads/mutex.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

class PagesAhead {
 public:
  // A thread keeps memory for so many bytes of pages ahead of those in use: at once before the
  // first step, later at most a twentieth of the time. The views are of a processor's memory, which
  // outlives this.
  static constexpr int64_t kBytes = int64_t{128} << 20;
  explicit PagesAhead(std::vector<StateView> views, int64_t bytes = kBytes);
  ~PagesAhead();
  PagesAhead(const PagesAhead&) = delete;
  PagesAhead& operator=(const PagesAhead&) = delete;

  // From now on pages with ids below this are in use. By one thread; does not wait for the memory.
  void use(int64_t pages);

 private:
  void run();
  // What a step writes meanwhile stays. False: there are no more, or this system cannot, by which
  // nothing is lost.
  bool populate(int64_t first, int64_t end);
  // Waits, so that steps have the processor for most of the time; false: it ends.
  bool rest_after(std::chrono::nanoseconds work);

  const std::vector<StateView> views_;
  const int64_t ahead_;  // Pages.
  int64_t used_ = 0;     // By the steps' thread.
  Mutex mutex_;
  ConditionVariable changed_;
  int64_t wanted_ ABSL_GUARDED_BY(mutex_);  // Pages that are to have memory.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // The last to come.
};

}  // namespace lockstep
