// SPDX-License-Identifier: Apache-2.0
// The shim's clusters, barriers, copies of tiles and products of a warpgroup.
#include "worker/kernels/cuda/shim/clusters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/numbers/float16.h"
#include "worker/kernels/cuda/hopper/tensor_map.h"
#include "worker/kernels/cuda/hopper/wgmma.h"

namespace lockstep {
namespace {

constexpr int64_t kSharedBytes = 16 << 10;

// Runs `thread` with `threads` threads in each of two blocks of a cluster, in both orders of
// threads.
template <typename F>
void run_cluster(int threads, const F& thread) {
  for (const shim::Order order : {shim::Order::kAscending, shim::Order::kDescending}) {
    shim::set_order(order);
    shim::run_clusters(2, 2, threads, kSharedBytes,
                       {&thread, [](const void* f) { (*static_cast<const F*>(f))(); }});
  }
}

TEST(ClustersTest, BlocksRunTogetherAndArriveAtEachOthersBarriers) {
  int after = 0;
  run_cluster(32, [&] {
    if (threadIdx.x == 0) shim::barrier_init(8, 2);
    shim::meet_cluster();
    if (threadIdx.x < 2) shim::barrier_arrive(8, static_cast<int>(threadIdx.x));
    shim::barrier_wait(8, 0);
    ++after;
  });
  EXPECT_EQ(after, 2 * 64);
}

// The tile reaches beyond the right and the lower edge of the matrix.
TEST(ClustersTest, ATileIsSwizzledFilledWithZerosAndBroughtToEveryBlock) {
  constexpr int kRows = 5, kCols = 40;
  std::vector<uint16_t> matrix(kRows * kCols);
  std::iota(matrix.begin(), matrix.end(), 1);
  cuda_shim::TensorMap map;
  ASSERT_EQ(cuda_shim::make_map({.data = matrix.data(),
                                 .cols = kCols,
                                 .rows = kRows,
                                 .row_bytes = kCols * 2,
                                 .tile_cols = 64,
                                 .tile_rows = 8},
                                &map),
            nullptr);
  int wrong = 0;
  run_cluster(32, [&] {
    if (threadIdx.x == 0) shim::barrier_init(8192, 1);
    shim::meet_cluster();
    if (threadIdx.x == 0) shim::barrier_expect(8192, 8 * 128);
    if (threadIdx.x == 0 && cuda_shim::cluster_rank() == 1) {
      cuda_shim::load_shared_tile(1024, map, 8, 2, 8192, 0b11);
    }
    shim::barrier_wait(8192, 0);
    const auto* tile = reinterpret_cast<const uint16_t*>(shim::dynamic_shared() + 1024);
    for (size_t r = 0; r < 8; ++r) {
      for (size_t c = 0; c < 64; ++c) {
        const bool there = r + 2 < kRows && c + 8 < kCols;
        const int wanted = there ? matrix[(r + 2) * kCols + c + 8] : 0;
        wrong += tile[r * 64 + (c / 8 ^ r) * 8 + c % 8] != wanted;
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

// The product takes columns 16 to 31 of rows that have 64 columns.
TEST(ClustersTest, AProductOfAWarpgroupHasTheBitsOfMmaSync) {
  constexpr int kRows = 64;
  const auto number = [](unsigned at) {
    return float_to_bf16(static_cast<float>(static_cast<int>(at * 2654435761u >> 22) - 512) / 7.0f);
  };
  int wrong = 0;
  run_cluster(128, [&] {
    auto* rows = reinterpret_cast<uint16_t*>(shim::dynamic_shared());
    for (unsigned i = threadIdx.x; i < kRows * 64; i += blockDim.x) {
      rows[i / 64 * 64 + (i % 64 / 8 ^ i / 64 % 8) * 8 + i % 8] = number(i);
    }
    __syncthreads();
    const unsigned lane = threadIdx.x % 32, group = lane / 4, pair = lane % 4 * 2;
    uint32_t a[4];
    for (unsigned w = 0; w < 4; ++w) {
      a[w] = number(threadIdx.x * 8 + w * 2) | uint32_t{number(threadIdx.x * 8 + w * 2 + 1)} << 16;
    }
    float sums[kRows / 2];
    std::fill_n(sums, kRows / 2, 3.0f);
    cuda_shim::Wgmma<cuda_shim::BF16, kRows>::add(sums, a, cuda_shim::rows_descriptor(0) + 2, 1);
    cuda_shim::wgmma_commit();
    cuda_shim::wgmma_wait<0>();
    const auto word = [&](unsigned row, unsigned col) {
      return number(row * 64 + col) | uint32_t{number(row * 64 + col + 1)} << 16;
    };
    for (unsigned block = 0; block < kRows / 8; ++block) {
      float c[4] = {3, 3, 3, 3};
      const unsigned row = block * 8 + group;
      cuda_shim::multiply_add<cuda_shim::BF16>(c, a, word(row, 16 + pair), word(row, 24 + pair));
      wrong += std::memcmp(c, sums + block * 4, sizeof(c)) != 0;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ClustersDeathTest, BytesThatNeverComeAreABug) {
  EXPECT_DEATH(run_cluster(32,
                           [] {
                             if (threadIdx.x == 0) {
                               shim::barrier_init(8, 1);
                               shim::barrier_expect(8, 16);
                               shim::barrier_wait(8, 0);
                             }
                           }),
               "check failed");
}

TEST(ClustersDeathTest, ABlockThatEndsBeforeACopyIsABug) {
  const std::vector<uint64_t> matrix(2);
  cuda_shim::TensorMap map;
  ASSERT_EQ(cuda_shim::make_map({.data = matrix.data(),
                                 .cols = 2,
                                 .rows = 1,
                                 .row_bytes = 16,
                                 .tile_cols = 2,
                                 .tile_rows = 1,
                                 .element_bytes = 8},
                                &map),
            nullptr);
  EXPECT_DEATH(run_cluster(32,
                           [&] {
                             if (threadIdx.x > 0) return;
                             shim::barrier_init(8, 1);
                             cuda_shim::load_tile(1024, map, 0, 0, 8);
                           }),
               "check failed");
}

}  // namespace
}  // namespace lockstep
