// SPDX-License-Identifier: Apache-2.0
#include "base/threads/task_thread.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

TEST(TaskThreadTest, TasksRunInOrderAndTheEndWaitsForAll) {
  std::vector<int> ran;
  {
    TaskThread thread;
    for (int i = 0; i < 1'000; ++i) thread.post([&ran, i] { ran.push_back(i); });
  }
  ASSERT_EQ(ran.size(), 1'000u);
  for (int i = 0; i < 1'000; ++i) EXPECT_EQ(ran[i], i);
}

}  // namespace
}  // namespace lockstep
