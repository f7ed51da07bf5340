// SPDX-License-Identifier: Apache-2.0
#include "base/threads/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <vector>

#include "base/system/topology.h"

namespace lockstep {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, EveryIndexRunsOnceOnAThreadOfThePool) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (const int64_t count : {0, 1, 2, 3, 7, 64, 1000}) {
    std::vector<int> runs(static_cast<size_t>(count), 0);  // Only one thread runs an index.
    std::atomic<int> bad_threads = 0;
    for_each(pool, count, [&](int64_t i, int thread) {
      ++runs[static_cast<size_t>(i)];
      if (thread < 0 || thread >= pool.threads()) ++bad_threads;
    });
    EXPECT_EQ(bad_threads, 0);
    for (const int n : runs) ASSERT_EQ(n, 1);
  }
}

TEST_P(ThreadPoolTest, ManySmallLoopsSeeEachOthersResults) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> values(5, 0);
  int64_t wanted = 0;
  for (int loop = 0; loop < 20000; ++loop) {
    const int64_t count = loop % 6;
    for_each(pool, count, [&](int64_t i) { values[static_cast<size_t>(i)] += i + 1; });
    wanted += count * (count + 1) / 2;
    ASSERT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), wanted) << loop;
  }
}

TEST_P(ThreadPoolTest, ThePoolWakesAfterALongPause) {
  ThreadPool pool(GetParam());
  for (int loop = 0; loop < 20; ++loop) {
    std::atomic<int> runs = 0;
    for_each(pool, 8, [&](int64_t) { ++runs; });
    EXPECT_EQ(runs, 8);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST_P(ThreadPoolTest, SleepingAndSpinningAlternate) {
  ThreadPool pool(GetParam());
  for (int loop = 0; loop < 300; ++loop) {
    std::atomic<int64_t> total = 0;
    for_each(pool, 100, [&](int64_t i) { total += i; });
    ASSERT_EQ(total, 4950);
    // Pauses are around the time after which helpers stop spinning.
    std::this_thread::sleep_for(std::chrono::microseconds(loop % 70));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8),
                         [](const auto& test) { return "Threads" + std::to_string(test.param); });

TEST(ThreadPoolLifeTest, APoolStartsAndStopsWithoutWork) {
  for (int i = 0; i < 50; ++i) {
    const ThreadPool pool(4);
    EXPECT_EQ(pool.threads(), 4);
  }
}

TEST(ThreadPoolLifeTest, AThreadKeepsItsNumberWithinALoop) {
  ThreadPool pool(4);
  std::vector<std::thread::id> ids(4);
  for (int loop = 0; loop < 200; ++loop) {
    for_each(pool, 16, [&](int64_t, int thread) {
      auto& id = ids[static_cast<size_t>(thread)];
      if (id == std::thread::id()) id = std::this_thread::get_id();
      EXPECT_EQ(id, std::this_thread::get_id());
    });
  }
  // The other threads may have been so fast that no index was left for the caller.
  EXPECT_TRUE(ids[0] == std::thread::id() || ids[0] == std::this_thread::get_id());
}

TEST(ThreadPoolLifeTest, ThreadsAreBoundToTheirProcessorsAndTheCallerIsReleased) {
  const std::vector<int> usable = thread_processors();
  const int threads = static_cast<int>(usable.size());
  {
    ThreadPool pool(threads, usable);
    std::atomic<int> begun = 0;
    for_each(pool, threads, [&](int64_t, int thread) {
      EXPECT_EQ(thread_processors(), std::vector<int>{usable[static_cast<size_t>(thread)]});
      ++begun;
      while (begun < threads) std::this_thread::yield();  // So each thread gets one index.
    });
  }
  EXPECT_EQ(thread_processors(), usable);
}

TEST(ThreadPoolLifeTest, ManyPoolsOnFewProcessorsAllMakeProgress) {
  const int pools = 4 * static_cast<int>(thread_processors().size());
  std::vector<std::thread> callers;
  callers.reserve(pools);
  std::atomic<int64_t> total = 0;
  for (int i = 0; i < pools; ++i) {
    callers.emplace_back([&] {
      ThreadPool pool(2);
      for (int loop = 0; loop < 200; ++loop) for_each(pool, 8, [&](int64_t) { ++total; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, pools * 200 * 8);
}

}  // namespace
}  // namespace lockstep
