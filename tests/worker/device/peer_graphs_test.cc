// SPDX-License-Identifier: Apache-2.0
// Compares ranks that meet in memory shared by their devices, and capture and replay their steps,
// with ranks that meet through the host and queue kernel by kernel. There is no GPU.
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "sharding/compile.h"
#include "tests/support/files/test_data.h"
#include "tests/worker/device/graph_pair.h"
#include "worker/collectives/devices/direct.h"

namespace lockstep {
namespace {

InProcessOptions llama(int ranks, Strategy strategy) {
  return {.model = test_data("tests/data/configs/llama"),
          .ranks = ranks,
          .strategy = strategy,
          .random_seed = 5};
}

// A Pair, and its sequences, which begin and grow.
class Talk {
 public:
  Talk(InProcessOptions options, const GraphDevices& devices) : pair(std::move(options), devices) {}
  // Begins `begun` with a few tokens each, in one step with one more token for each of `grown`.
  void run(std::initializer_list<int32_t> begun, std::initializer_list<int32_t> grown) {
    pair.run(step(begun, grown));
  }
  cluster::Step step(std::initializer_list<int32_t> begun, std::initializer_list<int32_t> grown) {
    cluster::Step step;
    for (const int32_t slot : begun) sequences_.begin(step, slot, 2 + 3 * slot);
    for (const int32_t slot : grown) sequences_.grow(step, slot);
    return step;
  }
  void expect_captures(int rank, int begun, int replayed) const {
    EXPECT_EQ(pair.captures[rank].begun, begun) << "rank " << rank;
    EXPECT_EQ(pair.captures[rank].replayed, replayed) << "rank " << rank;
  }

  Pair pair;

 private:
  Sequences sequences_;
};

constexpr auto kPeers = late_peer_backend;

struct Ranks {
  int ranks;
  Strategy strategy;
};

class PeerGraphsTest : public testing::TestWithParam<Ranks> {};

TEST_P(PeerGraphsTest, ReplaysHaveTheBitsOfKernelsQueuedOneByOne) {
  const auto [ranks, strategy] = GetParam();
  Talk talk(llama(ranks, strategy), {.make = kPeers});
  talk.run({0, 1, 2}, {});
  for (int i = 0; i < 4; ++i) talk.run({}, {0, 1, 2});
  talk.run({3}, {0, 2});  // A step with a prompt and generated rows is not padded.
  for (int i = 0; i < 2; ++i) talk.run({}, {0, 1, 2, 3});
  for (int i = 0; i < 3; ++i) talk.run({}, {1});
  for (int rank = 0; rank < ranks; ++rank) talk.expect_captures(rank, 2, 3 + 2 + 2);
}

INSTANTIATE_TEST_SUITE_P(All, PeerGraphsTest,
                         testing::Values(Ranks{2, Strategy::kGather}, Ranks{3, Strategy::kGather},
                                         Ranks{2, Strategy::kReduce}, Ranks{3, Strategy::kReduce}),
                         [](const auto& test) {
                           return std::string(strategy_name(test.param.strategy)) +
                                  std::to_string(test.param.ranks);
                         });

TEST(PeerGraphsTest, ARankThatCannotReplayComputesWithRanksThatDo) {
  for (bool Captures::*refused :
       {&Captures::refuse_begin, &Captures::refuse_end, &Captures::refuse_replay}) {
    Talk talk(llama(3, Strategy::kGather), {.make = kPeers});
    talk.pair.captures[1].*refused = true;
    talk.run({0, 1, 2}, {});
    for (int i = 0; i < 5; ++i) talk.run({}, {0, 1, 2});
    talk.expect_captures(0, 1, 4);
    talk.expect_captures(1, 1, 0);
    talk.expect_captures(2, 1, 4);
  }
}

// The rank without graphs pads no step, so the other ranks must not pad any, either.
TEST(PeerGraphsTest, NoRankUsesGraphsIfOneRankHasNone) {
  Talk talk(llama(2, Strategy::kGather), {.make = kPeers, .without = 1});
  talk.run({0, 1, 2}, {});
  for (int i = 0; i < 3; ++i) talk.run({}, {0, 1, 2});
  for (const int rank : {0, 1}) talk.expect_captures(rank, 0, 0);
}

TEST(PeerGraphsTest, AReplayThatWaitsForALostRankEndsAndTheNextGroupCapturesAnew) {
  for (const int lost : {0, 1, 2}) {
    Talk talk(llama(3, Strategy::kReduce), {.make = kPeers});
    talk.run({0, 1}, {});
    for (int i = 0; i < 3; ++i) talk.run({}, {0, 1});
    talk.pair.lose(lost, talk.step({}, {0, 1}));
    for (int rank = 0; rank < 3; ++rank) talk.expect_captures(rank, 1, rank == lost ? 2 : 3);
    talk.pair.regroup();
    talk.run({0, 1}, {});
    for (int i = 0; i < 3; ++i) talk.run({}, {0, 1});
    for (int rank = 0; rank < 3; ++rank) talk.expect_captures(rank, 2, rank == lost ? 4 : 5);
  }
}

// Each rank contributes half of the columns, in float32.
constexpr int64_t kColumns = 4096;
constexpr int64_t kMaxRows = kMaxDirectGatherBytes / (kColumns / 2 * 4);

TEST(PeerGraphsTest, AStepWithGathersTooLargeForPeerMemoryIsQueuedKernelByKernel) {
  static_assert(kMaxRows == 64);
  const SmallModel model(64, kColumns);
  InProcessOptions options = model.options(2);
  options.limits.set_rows(80);
  options.limits.set_sequences(80);
  options.limits.set_outputs(80);
  options.max_pages = 100;
  Pair pair(options, {.make = kPeers});
  int position = 0;
  const auto grow = [&](int32_t rows) {
    cluster::Step step;
    for (int32_t slot = 0; slot < rows; ++slot) {
      add_rows_in_slot(step, slot, {(slot + 3 * position) % 60 + 1}, position, {slot});
    }
    ++position;
    pair.run(step);
  };
  for (int i = 0; i < 3; ++i) grow(kMaxRows + 1);
  EXPECT_EQ(pair.captures[0].begun, 0);
  for (int i = 0; i < 3; ++i) grow(kMaxRows - 1);
  for (const Captures& each : pair.captures) {
    EXPECT_EQ(each.begun, 1);
    EXPECT_EQ(each.replayed, 2);
  }
}

}  // namespace
}  // namespace lockstep
