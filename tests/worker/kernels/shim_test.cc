// SPDX-License-Identifier: Apache-2.0
// The shim keeps CUDA's promises, and detects code that relies on more.
#include "worker/kernels/cuda/shim/shim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace lockstep {
namespace {

template <typename F>
void run_threads(int blocks, int threads, const F& thread) {
  shim::run(blocks, 1, threads, 0, {&thread, [](const void* f) { (*static_cast<const F*>(f))(); }});
}

TEST(ShimTest, EveryThreadOfEveryBlockRunsOnceWithItsOwnIndex) {
  std::vector<int> runs(3 * 2 * 64);
  const auto thread = [&] {
    ++runs[(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x];
  };
  shim::run(3, 2, 64, 0,
            {&thread, [](const void* f) { (*static_cast<const decltype(thread)*>(f))(); }});
  EXPECT_EQ(runs, std::vector<int>(runs.size(), 1));
}

TEST(ShimTest, WritesBeforeABarrierAreReadAfterIt) {
  for (const shim::Order order : {shim::Order::kAscending, shim::Order::kDescending}) {
    shim::set_order(order);
    std::vector<unsigned> from(96), to(96);
    run_threads(1, 96, [&] {
      from[threadIdx.x] = threadIdx.x;
      __syncthreads();
      to[threadIdx.x] = from[95 - threadIdx.x];
    });
    for (unsigned i = 0; i < 96; ++i) EXPECT_EQ(to[i], 95 - i);
  }
}

TEST(ShimTest, AMissingBarrierMakesResultsDependOnTheOrderOfThreads) {
  std::vector<unsigned> to[2];
  for (const int order : {0, 1}) {
    shim::set_order(order == 0 ? shim::Order::kAscending : shim::Order::kDescending);
    std::vector<unsigned> from(64, 99);
    to[order].resize(64);
    run_threads(1, 64, [&] {
      from[threadIdx.x] = threadIdx.x;
      to[order][threadIdx.x] = from[63 - threadIdx.x];
    });
  }
  EXPECT_NE(to[0], to[1]);
}

TEST(ShimTest, ShufflesStayWithinAWarpAndRepeat) {
  std::vector<float> sums(64);
  run_threads(1, 64, [&] {
    float x = static_cast<float>(threadIdx.x);
    for (int half = 16; half > 0; half /= 2) x = x + __shfl_xor_sync(0xffffffffu, x, half);
    sums[threadIdx.x] = x;
  });
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(sums[i], i < 32 ? 496.0f : 496.0f + 32 * 32);
}

TEST(ShimTest, EndedThreadsDoNotBlockABarrier) {
  int after = 0;
  run_threads(1, 64, [&] {
    if (threadIdx.x >= 10) return;
    __syncthreads();
    atomicAdd(&after, 1);
  });
  EXPECT_EQ(after, 10);
}

TEST(ShimDeathTest, AShuffleWithoutTheWholeWarpIsABug) {
  EXPECT_DEATH(run_threads(1, 32,
                           [] {
                             if (threadIdx.x < 5) __shfl_xor_sync(0xffffffffu, 1.0f, 1);
                           }),
               "check failed");
}

TEST(ShimDeathTest, ThreadsThatWaitAtDifferentPlacesAreABug) {
  EXPECT_DEATH(run_threads(1, 32,
                           [] {
                             if (threadIdx.x < 5) {
                               __syncthreads();
                             } else {
                               __shfl_xor_sync(0xffffffffu, 1.0f, 1);
                             }
                           }),
               "check failed");
}

TEST(ShimDeathTest, ABlockMustHaveWholeWarpsAndNotTooMany) {
  EXPECT_DEATH(run_threads(1, 33, [] {}), "check failed");
  EXPECT_DEATH(run_threads(1, 2048, [] {}), "check failed");
}

}  // namespace
}  // namespace lockstep
