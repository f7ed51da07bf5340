// SPDX-License-Identifier: Apache-2.0
// Groups that span hosts have the same bits as groups in shared memory, for any placement of ranks,
// and the same failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "tests/support/network/host_group.h"
#include "tests/worker/collectives/checks.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::host_group;
using Hosts = std::vector<int>;

// Gathers elements that encode their position into the memory that ranks share, and checks them.
absl::Status gather_shared(Collective& g, int64_t rows, const std::vector<int64_t>& boundaries,
                           int round) {
  const std::span<std::byte> shared = g.shared();
  auto* out = reinterpret_cast<float*>(shared.data() + shared.size() / 2 * (round % 2));
  const int64_t total = boundaries.back(), stride = total + round % 3;
  const auto number = [&](int64_t row, int64_t col) {
    return static_cast<float>(round * 7919 + row * 701 + col);
  };
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = boundaries[g.rank()]; col < boundaries[g.rank() + 1]; ++col) {
      out[row * stride + col] = number(row, col);
    }
  }
  RETURN_IF_ERROR(g.all_gather({.in = out + boundaries[g.rank()],
                                .in_stride = stride,
                                .out = out,
                                .out_stride = stride,
                                .rows = rows,
                                .boundaries = boundaries,
                                .element_bytes = sizeof(float)}));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < total; ++col) {
      if (out[row * stride + col] == number(row, col)) continue;
      return absl::DataLossError(fmt::format("round {} row {} column {}", round, row, col));
    }
  }
  return absl::OkStatus();
}

TEST(HostsTest, EveryCollectiveGivesTheSameBitsForAnyPlacementOfRanks) {
  for (const Hosts& hosts : testing::all_host_groups(5)) {
    SCOPED_TRACE(testing::text_of(hosts));
    Group group = host_group(hosts, {.shared_bytes = 1 << 20});
    expect_ok(run(group, [](Collective& g) -> absl::Status {
      std::minstd_rand random(kSeed + g.ranks());  // The same on every rank.
      for (int round = 0; round < 8; ++round) {
        const int64_t rows = round == 0 ? 1 : static_cast<int64_t>(random() % 9);
        const int64_t cols = 1 + static_cast<int64_t>(random() % 900);
        const std::vector<int64_t> parts = uneven(g.ranks(), cols, random);
        RETURN_IF_ERROR(gather_and_check(g, {rows, parts, 4, round % 2, round % 3 == 0}));
        RETURN_IF_ERROR(gather_shared(g, rows, parts, round));
        RETURN_IF_ERROR(reduce_and_check(g, rows, cols, round % 2));
      }
      RETURN_IF_ERROR(reduce_and_check(g, 1, 9'001, 0));   // In slices if there are three ranks.
      RETURN_IF_ERROR(reduce_and_check(g, 2, 40'000, 3));  // In chunks.
      return gather_and_check(g, {3, even(g.ranks(), 200'001), 2, 1, false});
    }));
  }
}

TEST(HostsTest, AThousandMixedCollectivesInARowSucceed) {
  for (const Hosts& hosts : {Hosts{0, 1}, Hosts{0, 1, 1}, Hosts{0, 1, 0, 2, 1}}) {
    SCOPED_TRACE(testing::text_of(hosts));
    Group group = host_group(hosts, {.shared_bytes = 1 << 20});
    expect_ok(run(group, [](Collective& g) -> absl::Status {
      std::minstd_rand random(kSeed);
      for (int round = 0; round < 1000; ++round) {
        const int64_t rows = random() % 4;
        const int64_t cols = 1 + random() % (random() % 50 == 0 ? 30'000 : 700);
        const std::vector<int64_t> parts = uneven(g.ranks(), cols, random);
        const uint64_t kind = random() % 3;
        if (kind == 0) RETURN_IF_ERROR(reduce_and_check(g, rows, cols, round % 2));
        if (kind == 1) RETURN_IF_ERROR(gather_and_check(g, {rows, parts, 2, 1, false}));
        if (kind == 2) RETURN_IF_ERROR(gather_shared(g, rows, parts, round));
      }
      return absl::OkStatus();
    }));
  }
}

TEST(HostsTest, LargeSharedValuesAreSentInManyFrames) {
  for (const Hosts& hosts : {Hosts{0, 1}, Hosts{0, 0, 1}}) {
    Group group = host_group(hosts, {.shared_bytes = 32 << 20});
    expect_ok(run(group, [](Collective& g) -> absl::Status {
      RETURN_IF_ERROR(gather_shared(g, 700, even(g.ranks(), 5'000), 0));
      return gather_shared(g, 1, even(g.ranks(), 3'000'001), 1);
    }));
  }
}

TEST(HostsTest, AnAbortEndsTheGroupOnEveryHost) {
  Group group = host_group({0, 0, 1, 2});
  expect_ok(run(group, [](Collective& g) { return reduce_and_check(g, 1, 100, 0); }));
  const auto results = run(group, [](Collective& g) {
    if (g.rank() != 1) return reduce_and_check(g, 1, 100, 0);
    g.abort();
    return absl::OkStatus();
  });
  for (const int rank : {0, 2, 3}) EXPECT_TRUE(absl::IsAborted(results[rank])) << results[rank];
  for (const absl::Status& result :
       run(group, [](Collective& g) { return reduce_and_check(g, 1, 1, 0); })) {
    EXPECT_FALSE(result.ok());
  }
}

TEST(HostsTest, NoRankWaitsForARankThatLeftAndTheErrorNamesThatRank) {
  for (const Hosts& hosts : {Hosts{0, 1}, Hosts{0, 1, 0}, Hosts{0, 1, 1}, Hosts{0, 1, 2}}) {
    SCOPED_TRACE(testing::text_of(hosts));
    Group group = host_group(hosts);
    expect_ok(run(group, [](Collective& g) { return reduce_and_check(g, 1, 100, 0); }));
    group[1].reset();
    std::vector<absl::Status> results(group.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < group.size(); ++rank) {
      if (rank == 1) continue;
      threads.emplace_back([&, rank] { results[rank] = reduce_and_check(*group[rank], 1, 9, 0); });
    }
    for (std::thread& thread : threads) thread.join();
    std::string all;
    for (size_t rank = 0; rank < group.size(); ++rank) {
      if (rank == 1) continue;
      EXPECT_TRUE(absl::IsUnavailable(results[rank])) << results[rank];
      all += message_of(results[rank]);
    }
    EXPECT_THAT(all, HasSubstr("rank 1"));
  }
}

TEST(HostsTest, ARankMayLeaveRightAfterItsLastCall) {
  for (const Hosts& hosts : {Hosts{0, 1}, Hosts{0, 1, 1, 2}}) {
    for (int round = 0; round < 50; ++round) {
      Group group = host_group(hosts);
      expect_ok(run(group, [&](Collective& g) {
        const absl::Status status = gather_and_check(g, {3, even(g.ranks(), 90'000), 4, 0, false});
        group[g.rank()].reset();
        return status;
      }));
    }
  }
}

TEST(HostsTest, ADeadlineEndsTheGroupAndNamesTheLateRank) {
  Group group = host_group({0, 1, 0}, {.timeout = milliseconds(1)});
  const absl::Status result = reduce_and_check(*group[0], 1, 100, 0);
  EXPECT_TRUE(absl::IsDeadlineExceeded(result)) << result;
  EXPECT_THAT(message_of(result), HasSubstr("rank 1 at host 1 sent too little"));
  EXPECT_FALSE(reduce_and_check(*group[1], 1, 100, 0).ok());
  EXPECT_FALSE(reduce_and_check(*group[2], 1, 100, 0).ok());
}

TEST(HostsTest, MismatchedCallsAreReportedWithBothNames) {
  Group group = host_group({0, 1});
  expect_ok(run(group, [](Collective& g) { return reduce_and_check(g, 1, 3, 0); }));
  const auto results = run(group, [](Collective& g) {
    return g.rank() == 0 ? reduce_and_check(g, 2, 9, 0) : reduce_and_check(g, 9, 2, 0);
  });
  std::set<absl::StatusCode> codes;
  std::string all;
  for (const absl::Status& result : results) {
    EXPECT_FALSE(result.ok());
    codes.insert(result.code());
    all += message_of(result);
  }
  // The rank that notices first gives kInternal.
  EXPECT_TRUE(codes.contains(absl::StatusCode::kInternal)) << all;
  EXPECT_THAT(all, HasSubstr("called all_reduce 2"));
}

}  // namespace
}  // namespace lockstep
