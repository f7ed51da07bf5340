// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ports/fair_turns.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

using Turns = FairTurns<int>;

TEST(FairTurnsTest, NetworksAlternate) {
  Turns turns;
  for (const int one : {1, 2, 3}) turns.add("10.0.0.1", one);
  turns.add("10.0.0.2", 4);
  std::vector<int> order;
  turns.run([&](int one) {
    order.push_back(one);
    if (one == 1) turns.add("10.0.0.3", 5);
  });
  EXPECT_EQ(order, (std::vector<int>{1, 4, 2, 5, 3}));
  EXPECT_EQ(turns.time(), Turns::Clock::time_point::max());
}

TEST(FairTurnsTest, ALongHandshakeEndsTheRunAndAnEqualPauseFollows) {
  Turns turns;
  for (int i = 0; i < 10; ++i) turns.add("10.0.0.1", i);
  int count = 0;
  const auto before = Turns::Clock::now();
  turns.run([&](int) {
    const int64_t end = thread_time_ns() + 5'000'000;
    while (thread_time_ns() < end) ++count;
  });
  EXPECT_GT(count, 0);
  EXPECT_GE(turns.time(), before + std::chrono::milliseconds(10));
  std::vector<int> left;
  while (turns.time() != Turns::Clock::time_point::max()) {
    turns.run([&](int one) { left.push_back(one); });
  }
  EXPECT_EQ(left, (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace lockstep
