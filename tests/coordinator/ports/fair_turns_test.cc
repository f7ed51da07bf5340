// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ports/fair_turns.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace lockstep {
namespace {

using Turns = FairTurns<const int>;

class FairTurnsTest : public ::testing::Test {
 protected:
  void add(const std::string& network, int number, bool is_first) {
    connections_.push_back(std::make_shared<const int>(number));
    turns_.add(network, connections_.back(), is_first);
  }
  // The connections in the order of their turns.
  std::vector<int> order() {
    std::vector<int> order;
    while (turns_.time() != Turns::Clock::time_point::max()) {
      turns_.run([&](int one) { order.push_back(one); });
    }
    return order;
  }

  Turns turns_;
  std::vector<std::shared_ptr<const int>> connections_;
};

TEST_F(FairTurnsTest, NetworksAlternate) {
  for (const int one : {1, 2, 3}) add("10.0.0.1", one, /*is_first=*/false);
  add("10.0.0.2", 4, /*is_first=*/false);
  std::vector<int> order;
  turns_.run([&](int one) {
    order.push_back(one);
    if (one == 1) add("10.0.0.3", 5, /*is_first=*/false);
  });
  EXPECT_EQ(order, (std::vector<int>{1, 4, 2, 5, 3}));
  EXPECT_EQ(turns_.time(), Turns::Clock::time_point::max());
}

TEST_F(FairTurnsTest, FirstTurnsAlternateWithOthersAndTheNewestConnectionIsFirst) {
  for (const int one : {1, 2, 3}) add("10.0.0.1", one, /*is_first=*/true);
  for (const int one : {4, 5, 6}) add("10.0.0.1", one, /*is_first=*/false);
  EXPECT_EQ(order(), (std::vector<int>{3, 4, 2, 5, 1, 6}));
}

TEST_F(FairTurnsTest, ManyClosedConnectionsTakeNoTurnsAndLittleMemory) {
  add("10.0.0.1", 1, /*is_first=*/true);
  std::weak_ptr<const int> closed = std::make_shared<const int>(2);
  for (int i = 0; i < 1'000'000; ++i) turns_.add("10.0.0.1", closed, /*is_first=*/true);
  EXPECT_TRUE(closed.expired());
  int runs = 0;
  for (; turns_.time() != Turns::Clock::time_point::max(); ++runs) {
    turns_.run([](int one) { EXPECT_EQ(one, 1); });
  }
  EXPECT_LT(runs, 100);
}

TEST_F(FairTurnsTest, ALongHandshakeEndsTheRunAndAnEqualPauseFollows) {
  for (int i = 0; i < 10; ++i) add("10.0.0.1", i, /*is_first=*/false);
  int count = 0;
  const auto before = Turns::Clock::now();
  turns_.run([&](int) {
    const int64_t end = thread_time_ns() + 5'000'000;
    while (thread_time_ns() < end) ++count;
  });
  EXPECT_GT(count, 0);
  EXPECT_GE(turns_.time(), before + std::chrono::milliseconds(10));
  EXPECT_EQ(order(), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace lockstep
