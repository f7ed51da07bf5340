// SPDX-License-Identifier: Apache-2.0
// The progress of a rank's work. Working threads write the counters, and the thread that sends
// heartbeats reads them. All accesses are relaxed: they order no other memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep {

struct alignas(64) Progress {
  // Bytes read, packed and written since the epoch was assigned; work without bytes, for instance
  // the trial of a kernel, counts as 1. Any number of threads add to it.
  std::atomic<uint64_t> load{0};
  // Bytes of weights: loaded from their source so far, and in total. For users.
  std::atomic<int64_t> bytes_loaded{0};
  std::atomic<int64_t> bytes_to_load{0};
  // Instructions completed since the epoch's first step. Ranks that are at the same instruction of
  // the same step have the same number. One thread writes it. On a GPU kernels are only queued, so
  // the number changes only at collectives and at the end of a step.
  std::atomic<uint64_t> instructions{0};
  // True in a collective, or while meeting the other ranks.
  std::atomic<bool> waiting{false};

  void add_load(int64_t bytes) {
    load.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
  }
};

// Progress::waiting is true while this object exists.
class WaitingMark {
 public:
  explicit WaitingMark(Progress& progress) : waiting_(progress.waiting) {
    waiting_.store(true, std::memory_order_relaxed);
  }
  ~WaitingMark() { waiting_.store(false, std::memory_order_relaxed); }
  WaitingMark(const WaitingMark&) = delete;
  WaitingMark& operator=(const WaitingMark&) = delete;

 private:
  std::atomic<bool>& waiting_;
};

}  // namespace lockstep
