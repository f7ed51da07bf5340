// SPDX-License-Identifier: Apache-2.0
// The best keys of a block of threads, compared with a sort.
#include "worker/kernels/cuda/candidates/best_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

namespace lockstep::cuda_shim {
namespace {

constexpr int kWarps = 4;

// Each thread gives every (kWarps * kWarp)-th key.
__global__ void best_kernel(const Key* keys, int count, Key* best) {
  __shared__ Key waiting[kWarps * BestKeys::kWaiting];
  __shared__ Key list[kBest];
  BestKeys found(waiting);
  for (int begin = 0; begin < count; begin += kWarps * kWarp) {
    const int i = begin + static_cast<int>(threadIdx.x);
    found.add(i < count ? keys[i] : 0);
  }
  found.merge<kWarps>(list);
  if (threadIdx.x < kBest) best[threadIdx.x] = list[threadIdx.x];
}

void expect_best(std::vector<Key> keys) {
  for (const shim::Order order : {shim::Order::kAscending, shim::Order::kDescending}) {
    shim::set_order(order);
    std::vector<Key> best(kBest, 1);
    launch(best_kernel, {}, kWarps * kWarp, nullptr, keys.data(), static_cast<int>(keys.size()),
           best.data());
    std::vector<Key> sorted = keys;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    sorted.resize(kBest, 0);
    ASSERT_EQ(best, sorted) << keys.size() << " keys";
  }
}

TEST(BestKeysTest, AreThoseOfASortForAnyNumberOfKeysInAnyOrder) {
  std::mt19937_64 random(7);
  for (const size_t count : {0, 1, 31, 33, 63, 64, 65, 127, 128, 129, 1000, 5000}) {
    std::vector<Key> keys(count);
    for (size_t i = 0; i < count; ++i) keys[i] = random() << 16 | (i + 1);
    expect_best(keys);
    std::sort(keys.begin(), keys.end());  // Each key is better than all before it.
    expect_best(keys);
    std::reverse(keys.begin(), keys.end());
    expect_best(keys);
  }
}

TEST(BestKeysTest, MayAllBeOfOneWarp) {
  std::vector<Key> keys(kWarps * kWarp * 40, 0);
  Key next = 0;
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i / kWarp % kWarps == 2 ? ++next : 0;
  expect_best(keys);
}

}  // namespace
}  // namespace lockstep::cuda_shim
