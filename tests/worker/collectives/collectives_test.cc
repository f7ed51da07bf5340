// SPDX-License-Identifier: Apache-2.0
// Collectives between threads: their results, and every way in which a group can end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/status.h"
#include "tests/support/cluster/local_collectives.h"
#include "tests/worker/collectives/checks.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr int kRankCounts[] = {1, 2, 3, 5, 7};

TEST(CollectivesTest, AllGatherPutsTheColumnsOfAllRanksSideBySide) {
  std::minstd_rand random(kSeed);
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  for (const int ranks : kRankCounts) {
    Group group = local_collectives(ranks);
    for (const int64_t element_bytes : {2, 4}) {
      for (const int64_t rows : {1, 3, 64}) {
        for (const int64_t total : {1, 64, 1000}) {
          for (const bool in_place : {false, true}) {
            const int64_t padding = rows % 2 == 0 ? 0 : 5;
            GatherCase c{rows, even(ranks, total), element_bytes, padding, in_place};
            expect_ok(run(group, [&](Collective& g) { return gather_and_check(g, c); }));
            c.boundaries = uneven(ranks, total, random);
            expect_ok(run(group, [&](Collective& g) { return gather_and_check(g, c); }));
          }
        }
      }
    }
  }
}

TEST(CollectivesTest, OneRankMayHaveAllColumnsAndThereMayBeNoColumns) {
  Group group = local_collectives(3);
  for (const std::vector<int64_t>& boundaries :
       std::vector<std::vector<int64_t>>{{0, 9, 9, 9}, {0, 0, 9, 9}, {0, 0, 0, 9}, {0, 0, 0, 0}}) {
    for (const int64_t rows : {0, 1, 4}) {
      const GatherCase c{rows, boundaries, 4, 2, false};
      expect_ok(run(group, [&](Collective& g) { return gather_and_check(g, c); }));
    }
  }
  expect_ok(run(group, [](Collective& g) { return g.all_reduce(nullptr, 0, 8, 8); }));
}

TEST(CollectivesTest, AllReduceAddsInRankOrderBitForBit) {
  for (const int ranks : kRankCounts) {
    Group group = local_collectives(ranks);
    for (const int64_t cols : {1, 7, 64, 1025, 8192, 20'000}) {
      for (const int64_t padding : {0, 3}) {
        const int64_t rows = cols > 2000 ? 2 : 5;
        expect_ok(
            run(group, [&](Collective& g) { return reduce_and_check(g, rows, cols, padding); }));
      }
    }
  }
}

TEST(CollectivesTest, PayloadsLargerThanASlotAreSentInChunks) {
  for (const int ranks : {2, 3, 5}) {
    Group group = local_collectives(ranks);
    // In some cases the end of a chunk is within a row; in others some ranks have no part of a
    // chunk.
    const GatherCase gathers[] = {{3, even(ranks, 500'001), 4, 7, false},
                                  {1, even(ranks, 1'200'000), 2, 0, true},
                                  {70'001, even(ranks, 11), 2, 1, false},
                                  {2, {0, 300'000, 300'001}, 4, 0, false}};
    for (GatherCase c : gathers) {
      while (c.boundaries.size() < static_cast<size_t>(ranks) + 1) {
        c.boundaries.push_back(c.boundaries.back());
      }
      expect_ok(run(group, [&](Collective& g) { return gather_and_check(g, c); }));
    }
    expect_ok(run(group, [](Collective& g) { return reduce_and_check(g, 1, 150'001, 0); }));
    expect_ok(run(group, [](Collective& g) { return reduce_and_check(g, 3, 65'537, 9); }));
  }
}

TEST(CollectivesTest, AnAddendKeepsItsBitsIfAllOthersAreNegativeZero) {
  for (const int ranks : kRankCounts) {
    Group group = local_collectives(ranks);
    for (const int64_t count : {int64_t{6}, int64_t{30'000}}) {
      expect_ok(run(group, [&](Collective& g) -> absl::Status {
        const float row[] = {0.0f, -0.0f, 1e-45f, -1.5f, INFINITY, 3e38f};
        std::vector<float> data(count, -0.0f);
        for (int64_t i = 0; i < count; ++i) {
          if (i % g.ranks() == g.rank()) data[i] = row[i % 6];
        }
        RETURN_IF_ERROR(g.all_reduce(data.data(), 1, count, count));
        for (int64_t i = 0; i < count; ++i) {
          if (std::memcmp(&data[i], &row[i % 6], sizeof(float)) != 0) {
            return absl::DataLossError(fmt::format("{}: found {}", i, data[i]));
          }
        }
        return absl::OkStatus();
      }));
    }
  }
}

TEST(CollectivesTest, ThousandsOfMixedCollectivesInARowSucceed) {
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  for (const int ranks : {2, 3, 7}) {
    Group group = local_collectives(ranks);
    expect_ok(run(group, [&](Collective& g) -> absl::Status {
      std::minstd_rand random(kSeed + g.ranks());  // The same on every rank.
      for (int i = 0; i < 3000; ++i) {
        const int64_t rows = 1 + random() % 4;
        const int64_t cols = random() % 100 == 0 ? 1 + random() % 60'000 : 1 + random() % 700;
        const int64_t padding = random() % 3;
        if (random() % 2 == 0) {
          RETURN_IF_ERROR(reduce_and_check(g, rows, cols, padding, i));
        } else {
          const int64_t bytes = random() % 2 == 0 ? 2 : 4;
          RETURN_IF_ERROR(gather_and_check(g, {rows, uneven(g.ranks(), cols, random), bytes,
                                               padding, random() % 2 == 0, uint64_t(i)}));
        }
      }
      return absl::OkStatus();
    }));
  }
}

TEST(CollectivesTest, AbortReachesAllRanksAndEndsTheGroup) {
  Group group = local_collectives(4);
  const auto results = run(group, [](Collective& g) {
    if (g.rank() != 3) return reduce_and_check(g, 1, 100, 0);
    g.abort();
    return absl::OkStatus();
  });
  for (int rank : {0, 1, 2}) {
    EXPECT_TRUE(absl::IsAborted(results[rank])) << results[rank];
    EXPECT_THAT(message_of(results[rank]), HasSubstr("aborted by rank 3"));
  }
  for (const absl::Status& result :
       run(group, [](Collective& g) { return reduce_and_check(g, 1, 1, 0); })) {
    EXPECT_TRUE(absl::IsAborted(result)) << result;
  }
}

TEST(CollectivesTest, MismatchedCallsAreReportedWithBothNames) {
  const auto gather = [](Collective& g, int64_t rows, int64_t cut) {
    return gather_and_check(g, {rows, {0, cut, 8}, 4, 0, false});
  };
  using Call = std::function<absl::Status(Collective&)>;
  const std::pair<Call, Call> pairs[] = {
      {[&](Collective& g) { return gather(g, 1, 4); },
       [&](Collective& g) { return reduce_and_check(g, 1, 8, 0); }},
      {[&](Collective& g) { return gather(g, 1, 4); },
       [&](Collective& g) { return gather(g, 2, 4); }},
      {[&](Collective& g) { return gather(g, 1, 4); },
       [&](Collective& g) { return gather(g, 1, 5); }},
      {[&](Collective& g) { return reduce_and_check(g, 2, 9, 0); },
       [&](Collective& g) { return reduce_and_check(g, 9, 2, 0); }}};
  for (const auto& pair : pairs) {
    Group group = local_collectives(2);
    expect_ok(run(group, [](Collective& g) { return reduce_and_check(g, 1, 3, 0); }));
    const auto results =
        run(group, [&](Collective& g) { return g.rank() == 0 ? pair.first(g) : pair.second(g); });
    for (const absl::Status& result : results) {
      EXPECT_EQ(result.code(), absl::StatusCode::kInternal) << result;
    }
    EXPECT_THAT(message_of(results[0]), HasSubstr("rank 1 called all_"));
    EXPECT_THAT(message_of(results[1]), HasSubstr("rank 0 called all_"));
  }
}

TEST(CollectivesTest, ADeadlineEndsTheGroup) {
  Group group = local_collectives(4, milliseconds(1));
  const absl::Status result = reduce_and_check(*group[0], 1, 100, 0);
  EXPECT_TRUE(absl::IsDeadlineExceeded(result)) << result;
  EXPECT_THAT(message_of(result), HasSubstr("have not arrived: rank 1, rank 2, rank 3"));
  // A late rank finds the group ended and changes nothing.
  EXPECT_TRUE(absl::IsDeadlineExceeded(reduce_and_check(*group[1], 1, 100, 0)));
}

TEST(CollectivesTest, NoRankWaitsForARankThatLeft) {
  Group group = local_collectives(3);
  expect_ok(run(group, [](Collective& g) { return reduce_and_check(g, 1, 100, 0); }));
  group[1].reset();
  std::thread other([&] { EXPECT_FALSE(reduce_and_check(*group[2], 1, 100, 0).ok()); });
  const absl::Status result = reduce_and_check(*group[0], 1, 100, 0);
  other.join();
  EXPECT_TRUE(absl::IsUnavailable(result)) << result;
  EXPECT_THAT(message_of(result), HasSubstr("rank 1 has left"));
}

TEST(CollectivesTest, TransferTimeIsCounted) {
  Group group = local_collectives(2);
  expect_ok(run(group, [](Collective& g) { return reduce_and_check(g, 1, 1000, 0); }));
  EXPECT_GT(group[0]->waited().transfer_ns, 0);
  EXPECT_GT(group[1]->waited().transfer_ns, 0);
}

TEST(CollectivesTest, ASingleRankNeedsNoPeers) {
  Group group = local_collectives(1);
  EXPECT_TRUE(gather_and_check(*group[0], {3, {0, 50}, 2, 4, false}).ok());
  EXPECT_TRUE(reduce_and_check(*group[0], 3, 50, 2).ok());
  group[0]->abort();
  EXPECT_TRUE(absl::IsAborted(reduce_and_check(*group[0], 3, 50, 2)));
}

}  // namespace
}  // namespace lockstep
