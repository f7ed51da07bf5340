// SPDX-License-Identifier: Apache-2.0
// Shared by kernel benchmarks: threads, and memory like that of weights.
#pragma once

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/system/cpu.h"
#include "base/threads/thread_pool.h"
#include "tools/bench/peaks.h"

namespace lockstep {

// LOCKSTEP_BENCH_THREADS threads (1).
inline ThreadPool& pool() {
  const char* threads = std::getenv("LOCKSTEP_BENCH_THREADS");
  static ThreadPool instance(threads == nullptr ? 1 : std::max(1, std::atoi(threads)));
  return instance;
}

// Huge pages if possible, filled with bits that are small numbers in any type.
class Memory {
 public:
  explicit Memory(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) std::abort();
    madvise(data_, bytes_, MADV_HUGEPAGE);
    auto* words = static_cast<uint32_t*>(data_);
    for (size_t i = 0; i < bytes_ / 4; ++i) {
      words[i] = 0x3c003c00u + static_cast<uint32_t>(i * 2654435761u >> 20 & 0xff);
    }
  }
  ~Memory() { munmap(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* at(int64_t offset) const { return static_cast<std::byte*>(data_) + offset; }

 private:
  size_t bytes_;
  void* data_;
};

// More than caches hold: weights rotate through it.
constexpr int64_t kCycledBytes = 512 << 20;
inline const Memory& cycled() {
  static const Memory memory(kCycledBytes);
  return memory;
}

// All threads together sum up cycled() once.
inline void read_cycled(ReadOrder order) {
  constexpr int64_t kPiece = 4 << 20;
  std::atomic<uint64_t> sum{0};
  for_each(pool(), kCycledBytes / kPiece, [&](int64_t piece) {
    sum += read_all(machine_isa(), order, cycled().at(piece * kPiece), kPiece);
  });
  benchmark::DoNotOptimize(sum.load());
}

}  // namespace lockstep
