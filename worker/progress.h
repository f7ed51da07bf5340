// SPDX-License-Identifier: Apache-2.0
// The progress of a rank's work. Written by the threads that work, read by the one that sends
// heartbeats; it orders no other memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep {

struct alignas(64) Progress {
  // Bytes read, packed and written since the epoch was assigned. Any number of threads.
  std::atomic<uint64_t> load{0};
  // Bytes of weights that are loaded from their source; for users.
  std::atomic<int64_t> bytes_loaded{0};
  std::atomic<int64_t> bytes_to_load{0};
  // Completed since the epoch's first step; equal on all ranks that are equally far. One writer. On
  // a device that only queues: those before the last collective or end of a step.
  std::atomic<uint64_t> instructions{0};
  // True in a collective, or while meeting the other ranks.
  std::atomic<bool> waiting{false};

  void add_load(int64_t bytes) {
    load.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
  }
};

// While it exists the rank waits for its peers.
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
