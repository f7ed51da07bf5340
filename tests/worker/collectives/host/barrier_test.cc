// SPDX-License-Identifier: Apache-2.0
// Ranks that wait at a barrier: which rank wakes the sleeping ones, and how the time of a wait is
// counted.
#include "worker/collectives/host/barrier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/status.h"
#include "worker/collectives/host/region.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using Clock = Barrier::Clock;

class BarrierTest : public testing::Test {
 protected:
  explicit BarrierTest(int ranks = 4) : region_(Region::in_process({.ranks = ranks})) {
    for (int rank = 0; rank < ranks; ++rank) ranks_.emplace_back(region_->header(), rank);
  }

  // `rank` arrives and waits on its own thread. When this function returns, the rank sleeps.
  std::thread sleeper(int rank, absl::Status* status, int64_t* wait_ns) {
    std::thread thread([=, this] {
      ranks_[rank].arrive();
      *status = ranks_[rank].wait(Clock::now() + std::chrono::hours(1), wait_ns);
    });
    while (region_->header().sleepers.load() == 0) std::this_thread::yield();
    return thread;
  }
  uint32_t doorbell() { return region_->header().doorbell.load(); }

  const std::shared_ptr<Region> region_;
  std::vector<Barrier> ranks_;
  absl::Status status_;
  int64_t wait_ns_ = 0;
};

TEST_F(BarrierTest, OnlyTheLastRankToArriveWakesASleeper) {
  std::thread thread = sleeper(0, &status_, &wait_ns_);
  const uint32_t before = doorbell();
  ranks_[1].arrive();
  ranks_[2].arrive();
  EXPECT_EQ(doorbell(), before);
  ranks_[3].arrive();
  EXPECT_EQ(doorbell(), before + 1);
  thread.join();
  EXPECT_EQ(status_, absl::OkStatus());
}

TEST_F(BarrierTest, NoRankIsWokenIfNoneSleeps) {
  const uint32_t before = doorbell();
  for (Barrier& rank : ranks_) rank.arrive();
  EXPECT_EQ(doorbell(), before);
}

TEST_F(BarrierTest, AnAbortWakesSleepers) {
  std::thread thread = sleeper(0, &status_, &wait_ns_);
  const uint32_t before = doorbell();
  ranks_[2].fail(Failure::kAborted, 2);
  EXPECT_EQ(doorbell(), before + 1);
  thread.join();
  EXPECT_TRUE(absl::IsAborted(status_)) << status_;
  EXPECT_THAT(message_of(status_), HasSubstr("aborted by rank 2"));
}

TEST_F(BarrierTest, ADeadlineNamesTheRanksThatDidNotArrive) {
  ranks_[0].arrive();
  ranks_[3].arrive();
  const absl::Status status = ranks_[0].wait(Clock::now(), &wait_ns_);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(message_of(status),
              HasSubstr("rank 0 timed out; ranks that have not arrived: rank 1, rank 2"));
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(ranks_[3].wait(Clock::now() + std::chrono::hours(1), &wait_ns_)));
}

TEST_F(BarrierTest, WaitTimeIsCountedAndTheLastRankToArriveDoesNotWait) {
  constexpr std::chrono::milliseconds kPause(20);
  std::thread thread = sleeper(0, &status_, &wait_ns_);
  std::this_thread::sleep_for(kPause);  // Rank 0 waits at least this long.
  for (int rank : {1, 2, 3}) ranks_[rank].arrive();
  int64_t last_ns = 0;
  EXPECT_EQ(ranks_[3].wait(Clock::now(), &last_ns), absl::OkStatus());
  EXPECT_EQ(last_ns, 0);
  thread.join();
  EXPECT_GE(wait_ns_, std::chrono::nanoseconds(kPause).count());
}

}  // namespace
}  // namespace lockstep
