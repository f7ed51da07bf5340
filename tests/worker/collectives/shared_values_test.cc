// SPDX-License-Identifier: Apache-2.0
// Memory that all ranks see, between threads and between processes, and gathers that move nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "tests/support/cluster/local_collectives.h"
#include "tests/support/processes/child_process.h"
#include "worker/collectives/host/rendezvous.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kSeed = 20261121;
constexpr int64_t kSharedBytes = 1 << 20;

// Each rank runs on its own thread.
std::vector<absl::Status> on_all(int ranks, int64_t shared_bytes,
                                 const std::function<absl::Status(Collective&)>& work) {
  auto group = local_collectives(ranks, kCollectiveTimeout, shared_bytes);
  std::vector<absl::Status> results(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { results[rank] = work(*group[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<int64_t> uneven(int ranks, int64_t total, std::minstd_rand& random) {
  std::vector<int64_t> boundaries = {0, total};
  while (static_cast<int>(boundaries.size()) <= ranks) {
    boundaries.push_back(static_cast<int64_t>(random() % (total + 1)));
  }
  std::sort(boundaries.begin(), boundaries.end());
  return boundaries;
}

struct GatherCase {
  int64_t rows;
  std::vector<int64_t> boundaries;
  int64_t stride;
  bool apart;  // The rank's part is in its own memory until all_gather copies it.
};

float number_at(int round, int64_t row, int64_t col) {
  return static_cast<float>(round * 7919 + row * 701 + col);
}

// The rounds use the two halves of the memory alternately, because a rank that is ahead must not
// write where another rank still reads.
absl::Status gather_and_check(Collective& g, const GatherCase& c, int round) {
  const std::span<std::byte> shared = g.shared();
  auto* out = reinterpret_cast<float*>(shared.data() + shared.size() / 2 * (round % 2));
  const int64_t first = c.boundaries[g.rank()], end = c.boundaries[g.rank() + 1];
  std::vector<float> elsewhere(c.rows * (end - first) + 1);
  float* in = c.apart ? elsewhere.data() : out + first;
  const int64_t in_stride = c.apart ? end - first : c.stride;
  for (int64_t row = 0; row < c.rows; ++row) {
    for (int64_t col = first; col < end; ++col) {
      in[row * in_stride + col - first] = number_at(round, row, col);
    }
  }
  RETURN_IF_ERROR(
      g.all_gather({in, in_stride, out, c.stride, c.rows, c.boundaries, sizeof(float)}));
  for (int64_t row = 0; row < c.rows; ++row) {
    for (int64_t col = 0; col < c.boundaries.back(); ++col) {
      if (out[row * c.stride + col] == number_at(round, row, col)) continue;
      return absl::DataLossError(fmt::format("round {} row {} column {}", round, row, col));
    }
  }
  return absl::OkStatus();
}

TEST(SharedValuesTest, AllColumnsAreVisibleWhenAllRanksHaveArrived) {
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  for (const int ranks : {2, 3, 7}) {
    const auto results = on_all(ranks, kSharedBytes, [](Collective& g) -> absl::Status {
      std::minstd_rand random(kSeed + g.ranks());  // The same on every rank.
      EXPECT_EQ(g.shared().size(), kSharedBytes);
      for (int round = 0; round < 600; ++round) {
        const int64_t rows = random() % 50, cols = 1 + random() % 700;
        const GatherCase c{rows, uneven(g.ranks(), cols, random),
                           cols + static_cast<int64_t>(random() % 3), random() % 3 == 0};
        RETURN_IF_ERROR(gather_and_check(g, c, round));
      }
      return absl::OkStatus();
    });
    for (const absl::Status& result : results) EXPECT_EQ(message_of(result), "");
  }
}

TEST(SharedValuesTest, GathersAtDifferentPlacesAreRefused) {
  const std::vector<int64_t> boundaries = {0, 1, 2};
  const auto results = on_all(2, kSharedBytes, [&](Collective& g) {
    float* out = reinterpret_cast<float*>(g.shared().data()) + 16 * g.rank();
    return g.all_gather({out + g.rank(), 2, out, 2, 1, boundaries, sizeof(float)});
  });
  for (const absl::Status& result : results) EXPECT_FALSE(result.ok());
  EXPECT_THAT(message_of(results[0]) + message_of(results[1]), HasSubstr("at another place"));
}

TEST(SharedValuesTest, RanksThatRequestNoSharedMemoryHaveNone) {
  for (const int ranks : {1, 2}) {
    for (const auto& one : local_collectives(ranks)) EXPECT_TRUE(one->shared().empty());
  }
}

class SharedValuesMeetingTest : public ::testing::Test {
 protected:
  MeetArgs args(int rank, int ranks, int64_t shared_bytes) const {
    return {.rank = rank,
            .ranks = ranks,
            .epoch = 5,
            .group = fmt::format("shared-values-{}", owner_),
            .secret = "a secret",
            .shared_bytes = shared_bytes,
            .timeout = kPatience,
            .collective_timeout = kPatience};
  }

  const int owner_ = getpid();  // Tests may run in parallel.
};

TEST_F(SharedValuesMeetingTest, ProcessesSeeTheSameMemory) {
  std::vector<std::unique_ptr<Child>> children;
  for (int rank = 0; rank < 3; ++rank) {
    const MeetArgs meeting = args(rank, 3, kSharedBytes);
    children.push_back(std::make_unique<Child>([meeting]() -> absl::Status {
      ASSIGN_OR_RETURN(const std::unique_ptr<Collective> group, meet_in_shared_memory(meeting));
      for (int round = 0; round < 50; ++round) {
        RETURN_IF_ERROR(gather_and_check(*group, {9, {0, 1, 64, 300}, 301, false}, round));
      }
      return absl::OkStatus();
    }));
  }
  for (auto& child : children) EXPECT_EQ(child->result(), absl::OkStatus());
}

TEST_F(SharedValuesMeetingTest, RanksThatNeedDifferentSizesDoNotMeet) {
  const MeetArgs more = args(1, 2, kSharedBytes);
  Child other([more] { return meet_in_shared_memory(more).status(); });
  const auto group = meet_in_shared_memory(args(0, 2, 4096));
  EXPECT_EQ(other.result().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep
