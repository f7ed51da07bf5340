// SPDX-License-Identifier: Apache-2.0
// Exchanges between devices, driven from one thread: over the shim on every machine, and between
// two queues of a GPU if there is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/worker/kernels/exchange_ranks.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

void expect_sums(Ranks& ranks, int64_t rows, int64_t cols, int64_t stride) {
  const int64_t count = rows * stride;
  std::vector<std::vector<float>> given;
  std::vector<DeviceMemory> memory;
  for (int r = 0; r < ranks.count(); ++r) {
    given.push_back(addends(r, count));
    memory.emplace_back(ranks.device(r), count * kFloat);
    ranks.device(r).copy_in(memory.back().data(), given[r].data(), count * kFloat);
  }
  for (int r = 0; r < ranks.count(); ++r) ranks.reduce(r, memory[r].data(), rows, cols, stride);
  for (int r = 0; r < ranks.count(); ++r) {
    std::vector<float> found(static_cast<size_t>(count));
    ranks.device(r).copy_out(found.data(), memory[r].data(), count * kFloat);
    ASSERT_EQ(ranks.device(r).synchronize(), nullptr);
    for (int64_t i = 0; i < count; ++i) {
      float wanted = given[i % stride < cols ? 0 : r][i];
      for (int other = 1; other < ranks.count() && i % stride < cols; ++other) {
        wanted = wanted + given[other][i];
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(wanted))
          << "rank " << r << " of " << ranks.count() << ", " << rows << " x " << cols << ": " << i;
    }
  }
}

TEST_P(ExchangeTest, SumsAreInRankOrderForAnySizes) {
  for (const int count : {1, 2, 3, 5, kMaxPeers}) {
    if (count > max_ranks()) break;
    Ranks ranks(GetParam(), count, 20s);
    for (const int64_t rows : {1, 2, 64}) {
      for (const int64_t cols : {1, 64, 103}) {
        expect_sums(ranks, rows, cols, cols);
        expect_sums(ranks, rows, cols, cols + (cols == 64 ? 4 : 1));
      }
    }
  }
}

// The first sum is split among the ranks, in more pieces than there are channels.
TEST_P(ExchangeTest, LargeSumsAndALaterSmallSumAreRight) {
  for (const int count : {2, std::min(3, max_ranks())}) {
    Ranks ranks(GetParam(), count, 20s);
    expect_sums(ranks, 5, 28'000, 28'001);
    expect_sums(ranks, 3, 7, 7);
  }
}

TEST_P(ExchangeTest, GathersPlaceTheColumnsOfAllRanks) {
  if (GetParam() == Kind::kGpu) GTEST_SKIP() << "the GPU's gather kernels are not loaded yet";
  Ranks ranks(GetParam(), 4, 20s);
  struct Case {
    int64_t rows, element;
    std::vector<int64_t> boundaries;
    bool placed;
  };
  for (const Case& c : {Case{1, 4, {0, 8, 16, 24, 32}, false}, Case{3, 4, {0, 8, 16, 24, 32}, true},
                        Case{5, 2, {0, 0, 7, 7, 20}, false}, Case{2, 1, {0, 3, 4, 9, 10}, true},
                        Case{17, 4, {0, 900, 1000, 1900, 2000}, false}}) {
    const int64_t total = c.boundaries.back() * c.element, to_stride = total + 3 * c.element;
    std::vector<DeviceMemory> memory, apart;
    for (int r = 0; r < 4; ++r) {
      memory.emplace_back(ranks.device(r), c.rows * to_stride);
      PeerGather gather{.to = memory[r].data(), .to_stride = to_stride, .rows = c.rows};
      for (int i = 0; i <= 4; ++i) gather.boundaries[i] = c.boundaries[i] * c.element;
      const int64_t begin = gather.boundaries[r], width = gather.boundaries[r + 1] - begin;
      apart.emplace_back(ranks.device(r), c.rows * (width + c.element));
      std::byte* from = c.placed ? gather.to + begin : apart[r].data();
      gather.from = from;
      gather.from_stride = c.placed ? to_stride : width + c.element;
      for (int64_t row = 0; row < c.rows; ++row) {
        for (int64_t i = 0; i < width; ++i) {
          from[row * gather.from_stride + i] =
              static_cast<std::byte>(row * 31 + (begin + i) * 7 + 1);
        }
      }
      EXPECT_EQ(ranks.access(r).all_gather(ranks.group(r), gather), nullptr);
    }
    ranks.synchronize();
    for (int r = 0; r < 4; ++r) {
      for (int64_t i = 0; i < c.rows * to_stride; ++i) {
        const int64_t row = i / to_stride, col = i % to_stride;
        ASSERT_EQ(memory[r].data()[i],
                  static_cast<std::byte>(col < total ? row * 31 + col * 7 + 1 : 0))
            << r << ": " << row << ", " << col;
      }
    }
  }
}

// A missed flag, or a slot that was written too early, gives another sum. The numbers of the
// exchanges begin below 2^64 and wrap to 0.
TEST_P(ExchangeTest, ManySumsInARowAreRightAtAnyPace) {
  constexpr int kTogether = 50, kMax = 900;
  // Over the shim each call needs several thread switches, which are slow on a busy machine.
  const int calls = GetParam() == Kind::kGpu ? 50'000 : 1'000;
  const int count = std::min(3, max_ranks());
  Ranks ranks(GetParam(), count, 20s, ~uint64_t{0} - static_cast<uint64_t>(calls) / 2);
  std::vector<DeviceMemory> memory;
  memory.reserve(static_cast<size_t>(count));
  for (int r = 0; r < count; ++r) memory.emplace_back(ranks.device(r), kTogether * kMax * kFloat);
  std::vector<float> data(kTogether * kMax);
  const auto size_of = [](int call) { return 1 + call * 37 % (call % 10 == 0 ? kMax : 40); };
  const auto given = [](int call, int rank, int i) {
    return static_cast<float>(call % 1000 * 5 + rank * 1000 + i);
  };
  for (int first = 0; first < calls; first += kTogether) {
    for (int r = 0; r < count; ++r) {
      for (int call = 0; call < kTogether; ++call) {
        for (int i = 0; i < size_of(first + call); ++i) {
          data[call * kMax + i] = given(first + call, r, i);
        }
      }
      ranks.device(r).copy_in(memory[r].data(), data.data(), std::ssize(data) * kFloat);
      ASSERT_EQ(ranks.device(r).synchronize(), nullptr);
    }
    for (int call = 0; call < kTogether; ++call) {
      const int size = size_of(first + call);
      for (int r = 0; r < count; ++r) {
        ranks.reduce(r, memory[r].data() + call * kMax * kFloat, 1, size, size);
      }
    }
    for (int r = 0; r < count; ++r) {
      ranks.device(r).copy_out(data.data(), memory[r].data(), std::ssize(data) * kFloat);
      ASSERT_EQ(ranks.device(r).synchronize(), nullptr);
      for (int call = 0; call < kTogether; ++call) {
        for (int i = 0; i < size_of(first + call); ++i) {
          float wanted = 0;
          for (int other = 0; other < count; ++other) {
            wanted = wanted + given(first + call, other, i);
          }
          ASSERT_EQ(data[call * kMax + i], wanted) << "call " << first + call << ", rank " << r;
        }
      }
    }
  }
  EXPECT_LT(ranks.seen(0)->next[0], static_cast<uint64_t>(calls));  // The number has wrapped.
}

TEST_P(ExchangeTest, RanksGiveUpOnAMissingPeerAndSetNoFlagsAfterwards) {
  Ranks ranks(GetParam(), 2, 50ms);
  const DeviceMemory memory(ranks.device(0), 64);
  ranks.reduce(0, memory.data(), 1, 16, 16);
  ranks.synchronize();
  EXPECT_EQ(*ranks.group(0).ended, kPeerLate + 1);
  EXPECT_EQ(ranks.raised(), kFirst);
  ranks.reduce(0, memory.data(), 1, 16, 16);
  ranks.synchronize();
  EXPECT_EQ(ranks.raised(), kFirst);
}

TEST_P(ExchangeTest, TheHostCanEndAWait) {
  Ranks ranks(GetParam(), 2, 1h);
  const DeviceMemory memory(ranks.device(0), 64);
  ranks.reduce(0, memory.data(), 1, 16, 16);
  while (ranks.raised() != kFirst) std::this_thread::yield();
  EXPECT_FALSE(ranks.device(0).done());
  __atomic_store_n(ranks.group(0).ended, kPeersAborted, __ATOMIC_RELAXED);
  ranks.synchronize();
  EXPECT_EQ(ranks.seen(0)->ended, 1u);
  EXPECT_EQ(*ranks.group(0).ended, kPeersAborted);
}

TEST_P(ExchangeTest, FlagsOfAnotherGroupAreIgnored) {
  for (const uint64_t other : {kFirst - 1, kFirst + 2, kFirst + 1'000'000, uint64_t{0}}) {
    Ranks ranks(GetParam(), 2, 20s);
    ranks.set_flags(0, other);
    const float one = 1, two = 2;
    float sum = 0;
    const DeviceMemory memory(ranks.device(0), kFloat), peers(ranks.device(1), kFloat);
    ranks.device(0).copy_in(memory.data(), &one, kFloat);
    ranks.device(1).copy_in(peers.data(), &two, kFloat);
    ranks.reduce(0, memory.data(), 1, 1, 1);
    while (ranks.raised() != kFirst) std::this_thread::yield();
    EXPECT_FALSE(ranks.device(0).done());
    ranks.reduce(1, peers.data(), 1, 1, 1);
    ranks.device(0).copy_out(&sum, memory.data(), kFloat);
    ranks.synchronize();
    EXPECT_EQ(sum, 3) << other;
    EXPECT_EQ(*ranks.group(0).ended, kPeersMeet);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ExchangeTest, testing::Values(Kind::kStream, Kind::kGpu),
                         [](const auto& kind) {
                           return kind.param == Kind::kStream ? "Stream" : "Gpu";
                         });

}  // namespace
}  // namespace lockstep
