// SPDX-License-Identifier: Apache-2.0
// A group on a bad network gives the right bits or ends; it never gives a wrong value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/support/network/host_group.h"
#include "tests/support/network/relay.h"
#include "tests/support/patience.h"
#include "tests/worker/collectives/checks.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::host_group;
using testing::Relay;

// Ranks 0 and 1 on two hosts, and a relay between them.
class NetworkTest : public ::testing::Test {
 protected:
  Group make_group(std::chrono::nanoseconds timeout = kPatience) {
    return host_group({0, 1}, {.timeout = timeout,
                               .shared_bytes = 1 << 20,
                               .way = [this](int, int, const std::string& address) {
                                 relay_ = std::make_unique<Relay>(address);
                                 return relay_->address();
                               }});
  }

  // Makes ten calls. Returns DATA_LOSS if the checks find a wrong byte.
  static absl::Status ten_calls(Collective& g) {
    for (int round = 0; round < 5; ++round) {
      RETURN_IF_ERROR(gather_and_check(g, {3, {0, 700, 1900}, 4, 1, false}));
      RETURN_IF_ERROR(reduce_and_check(g, 2, 3000, 0));
    }
    return absl::OkStatus();
  }

  void expect_ended(const std::vector<absl::Status>& results) {
    for (const absl::Status& result : results) {
      EXPECT_FALSE(result.ok());
      EXPECT_FALSE(absl::IsDataLoss(result)) << result;
    }
  }

  std::unique_ptr<Relay> relay_;
};

TEST_F(NetworkTest, AChangedBitAnywhereEndsTheGroup) {
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  std::minstd_rand random(kSeed);
  for (int round = 0; round < 60; ++round) {
    Group group = make_group();
    relay_->faults().flip_at = round < 20 ? round * 11 : random() % 100'000;
    const auto results = run(group, ten_calls);
    expect_ended(results);
    EXPECT_THAT(message_of(results[1]), HasSubstr("rank 0 at host 0 "));
    EXPECT_TRUE(absl::IsUnavailable(results[1])) << results[1];
  }
}

TEST_F(NetworkTest, AMissingByteEndsTheGroup) {
  for (const int64_t at : {0, 50, 100, 8'000, 30'000}) {
    Group group = make_group();
    relay_->faults().drop_at = at;
    expect_ended(run(group, ten_calls));
  }
}

TEST_F(NetworkTest, AResetInMidFrameEndsTheGroup) {
  for (const int64_t at : {0, 1, 88, 5'000, 60'000}) {
    Group group = make_group();
    relay_->faults().reset_at = at;
    const auto results = run(group, ten_calls);
    expect_ended(results);
    EXPECT_THAT(message_of(results[1]), HasSubstr("rank 0 at host 0 is gone"));
  }
}

TEST_F(NetworkTest, AStallEndsTheGroupAtItsDeadline) {
  Group group = make_group(milliseconds(300));
  relay_->faults().stall_at = 20'000;
  const auto results = run(group, ten_calls);
  expect_ended(results);
  EXPECT_THAT(message_of(results[0]) + message_of(results[1]), HasSubstr("timed out"));
}

TEST_F(NetworkTest, AnAbortEndsACallThatStalls) {
  Group group = make_group();
  relay_->faults().stall_at = 20'000;
  std::thread aborter([&] {
    EXPECT_TRUE(becomes_true([&] { return relay_->bytes() >= 20'000; }));
    group[0]->abort();
    group[1]->abort();
  });
  expect_ended(run(group, ten_calls));
  aborter.join();
}

TEST_F(NetworkTest, AnAbortedRankSendsAGoodbyeThatAbortsItsPeer) {
  for (int round = 0; round < 20; ++round) {
    Group group = make_group();
    const auto results = run(group, [&](Collective& g) -> absl::Status {
      RETURN_IF_ERROR(gather_and_check(g, {3, {0, 700, 1900}, 4, 1, false}));
      // Rank 0 is not in a call: only abort() can send the goodbye.
      if (g.rank() == 0) group[0]->abort();
      return gather_and_check(g, {3, {0, 700, 1900}, 4, 1, false});
    });
    EXPECT_TRUE(absl::IsAborted(results[0])) << results[0];
    EXPECT_TRUE(absl::IsAborted(results[1])) << results[1];
    EXPECT_THAT(message_of(results[1]),
                HasSubstr("rank 0 at host 0 says that rank 0 aborted the group"));
  }
}

// When rank 1 aborts, its part of a call has been sent, and rank 0's part is stuck in the relay.
TEST_F(NetworkTest, AnAbortDuringACallSendsAGoodbye) {
  Group group = make_group();
  relay_->faults().stall_at = 20'000;
  std::thread aborter([&] {
    EXPECT_TRUE(becomes_true([&] { return relay_->bytes() >= 20'000; }));
    group[1]->abort();
  });
  const auto results = run(group, ten_calls);
  aborter.join();
  for (const absl::Status& result : results) EXPECT_TRUE(absl::IsAborted(result)) << result;
}

// Frames are in flight both ways. A peer that gets no CPU for some time may see only the end of the
// connection, so it is enough that both ranks report the abort in one of ten rounds.
TEST(BusyNetworkTest, AGoodbyeFollowsTheFrameInFlight) {
  int aborted = 0;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    Group group = host_group({0, 1});
    std::atomic<int> calls{0};
    std::thread aborter([&] {
      EXPECT_TRUE(becomes_true([&] { return calls >= 4 + round; }));
      group[round % 2]->abort();
    });
    const auto results = run(group, [&](Collective& g) -> absl::Status {
      while (true) {
        RETURN_IF_ERROR(gather_and_check(g, {1, {0, 100'000, 200'000}, 1, 0, false}));
        ++calls;
      }
    });
    aborter.join();
    aborted += absl::IsAborted(results[0]) && absl::IsAborted(results[1]);
  }
  EXPECT_GT(aborted, 0);
}

TEST_F(NetworkTest, ARankThatLeavesSendsAGoodbye) {
  Group group = make_group();
  const auto results = run(group, [&](Collective& g) -> absl::Status {
    RETURN_IF_ERROR(gather_and_check(g, {3, {0, 700, 1900}, 4, 1, false}));
    if (g.rank() == 0) {
      group[0].reset();
      return absl::OkStatus();
    }
    return gather_and_check(g, {3, {0, 700, 1900}, 4, 1, false});
  });
  EXPECT_TRUE(absl::IsUnavailable(results[1])) << results[1];
  EXPECT_THAT(message_of(results[1]), HasSubstr("says that rank 0 has left the group"));
}

// Each of three hosts is connected to the two others; the connection of one pair is cut.
TEST(NetworkOfThreeTest, AHostReportsALostPeerToTheOthers) {
  std::unique_ptr<Relay> relay;
  Group group = host_group(
      {0, 1, 2}, {.timeout = kPatience, .way = [&](int from, int to, const std::string& address) {
                    if (from + to != 1) return address;
                    relay = std::make_unique<Relay>(address);
                    return relay->address();
                  }});
  relay->faults().reset_at = 5'000;
  const auto results = run(group, [](Collective& g) -> absl::Status {
    for (int round = 0; round < 10; ++round) {
      RETURN_IF_ERROR(gather_and_check(g, {3, {0, 700, 1900, 2'500}, 4, 1, false}));
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(message_of(results[0]), HasSubstr("rank 1 at host 1 is gone"));
  EXPECT_THAT(message_of(results[1]), HasSubstr("rank 0 at host 0 is gone"));
  EXPECT_TRUE(absl::IsUnavailable(results[2])) << results[2];
  EXPECT_THAT(message_of(results[2]), ::testing::ContainsRegex("rank [01] has left the group"));
}

TEST_F(NetworkTest, ASlowLinkGivesTheSameBits) {
  Group group = make_group();
  relay_->faults().pause_us = 500;
  relay_->faults().chunk_bytes = 700;
  expect_ok(run(group, ten_calls));
}

TEST_F(NetworkTest, ADelayGivesTheSameBits) {
  Group group = make_group();
  relay_->faults().pause_us = 20'000;
  expect_ok(run(group, ten_calls));
}

}  // namespace
}  // namespace lockstep
