// SPDX-License-Identifier: Apache-2.0
// Threads take blocks dynamically, as they do in a step. Other processes can make a pass slower,
// never faster: so the best pass counts.
#include "worker/host/read_rate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "base/system/read_loop.h"
#include "base/threads/thread_pool.h"
#include "worker/host/memory.h"

namespace lockstep {
namespace {

constexpr int64_t kMeasuredBytes = int64_t{64} << 20;
constexpr int64_t kMeasuredBlock = int64_t{1} << 20;
constexpr int64_t kMeasuredBlocks = kMeasuredBytes / kMeasuredBlock;
constexpr int kMinPasses = 2;
constexpr int kMaxPasses = 8;
constexpr double kProcessorSeconds = 0.06;  // Enough CPU time for all threads and passes.

double measured_seconds(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double measure_read_rate(int threads, const std::vector<int>& processors) {
  ThreadPool pool(threads, processors);
  const std::unique_ptr<Device> host = host_device();
  const auto memory = allocate_memory(*host, kMeasuredBytes, "a measurement");
  if (!memory.ok()) return 0;
  std::byte* const data = memory->data();
  // Writes all pages: pages that were never written would share one page of memory.
  for_each(pool, kMeasuredBlocks,
           [&](int64_t block) { std::memset(data + block * kMeasuredBlock, 1, kMeasuredBlock); });
  std::atomic<uint64_t> sink{0};  // Has the sums, so that the compiler keeps the reads.
  double fastest = 0, used = 0;
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    if (pass >= kMinPasses && used >= kProcessorSeconds) break;
    const auto start = std::chrono::steady_clock::now();
    for_each(pool, kMeasuredBlocks, [&](int64_t block) {
      sink.fetch_add(sum_of_words(data + block * kMeasuredBlock, kMeasuredBlock),
                     std::memory_order_relaxed);
    });
    const double seconds = measured_seconds(start);
    fastest = std::max(fastest, static_cast<double>(kMeasuredBytes) / seconds);
    used += seconds * threads;
  }
  return sink.load() == 0 ? 0 : fastest;
}

}  // namespace lockstep
