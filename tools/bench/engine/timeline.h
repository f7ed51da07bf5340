// SPDX-License-Identifier: Apache-2.0
// Instant ranks' records of every step, in memory that the bench's processes share.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace lockstep::bench {

inline constexpr int kMaxRanks = 16;
inline constexpr uint64_t kMaxSteps = uint64_t{1} << 16;

struct Timeline {
  struct Stamp {
    std::atomic<int64_t> received_ns{0};  // 0: never.
    std::atomic<int64_t> answered_ns{0};
    std::atomic<int32_t> outputs{0};
  };
  Stamp stamps[kMaxRanks][kMaxSteps];
  std::atomic<int64_t> tokens{0};    // Read by clients.
  std::atomic<int64_t> failures{0};  // Failures of clients.
  int64_t compute_us = 0;            // Set before the processes fork.

  Stamp& at(int rank, uint64_t step) { return stamps[rank][step % kMaxSteps]; }

  // Call before the processes fork; lives until the last of them ends.
  static Timeline* share() {
    void* memory =
        mmap(nullptr, sizeof(Timeline), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : new (memory) Timeline;
  }
};

}  // namespace lockstep::bench
