// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/patience.h"

namespace lockstep {
namespace {

using Clock = Watchdog::Clock;
using Verdict = Watchdog::Verdict;

class WatchdogTest : public ::testing::Test {
 protected:
  // A call that waits until the watchdog ends it.
  Verdict wait_for_end(Clock::time_point deadline) {
    watchdog_.begin(deadline);
    EXPECT_TRUE(becomes_true([this] { return ends_ > 0; }));
    return watchdog_.over();
  }

  std::atomic<int> ends_ = 0;
  std::atomic<bool> cancelled_ = false;
  Watchdog watchdog_{[this] { ++ends_; }, &cancelled_};
};

TEST_F(WatchdogTest, ACallPastItsDeadlineIsEnded) {
  EXPECT_EQ(wait_for_end(Clock::now()), Verdict::kLate);
}

TEST_F(WatchdogTest, AWaitingCallIsEndedByAnAbort) {
  watchdog_.abort();
  EXPECT_TRUE(watchdog_.aborted());
  EXPECT_EQ(wait_for_end(Clock::time_point::max()), Verdict::kAborted);
  EXPECT_EQ(ends_, 1);
}

TEST_F(WatchdogTest, AWaitingCallIsEndedByTheEndOfItsEpoch) {
  cancelled_ = true;
  EXPECT_EQ(wait_for_end(Clock::time_point::max()), Verdict::kAborted);
}

TEST_F(WatchdogTest, TheEndOfAForgottenEpochEndsNothing) {
  cancelled_ = true;
  watchdog_.forget_cancelled();
  EXPECT_FALSE(watchdog_.aborted());
}

// The watchdog's function may free objects that a call uses. So the watchdog gives each call about
// 400 ms, in which calls that only queue work end by themselves.
TEST_F(WatchdogTest, AnAbortDoesNotEndShortCalls) {
  watchdog_.abort();
  const Clock::time_point end = Clock::now() + std::chrono::seconds(1);
  while (Clock::now() < end) {
    watchdog_.begin(Clock::time_point::max());
    EXPECT_EQ(watchdog_.over(), Verdict::kInTime);
  }
  EXPECT_EQ(ends_, 0);
}

}  // namespace
}  // namespace lockstep
