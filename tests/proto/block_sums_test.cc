// SPDX-License-Identifier: Apache-2.0
#include "proto/block_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/status.h"
#include "operators/limits.h"

namespace lockstep {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<BlockSum> some_blocks(size_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> max(-90, 10), sum(1, 64);
  std::vector<BlockSum> blocks(count);
  for (BlockSum& block : blocks) block = {max(random), sum(random)};
  return blocks;
}

// The runs of blocks that are split over ranks: rank i has the blocks [cuts[i], cuts[i + 1]).
std::vector<BlockSum> runs_over(const std::vector<BlockSum>& blocks,
                                const std::vector<size_t>& cuts) {
  std::vector<cluster::BlockSums> ranks(cuts.size() - 1);
  std::vector<const cluster::BlockSums*> pointers;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    set_sums(static_cast<int64_t>(cuts[i]),
             std::span(blocks).subspan(cuts[i], cuts[i + 1] - cuts[i]), &ranks[i]);
    EXPECT_TRUE(check_sums(ranks[i], static_cast<int64_t>(blocks.size()) * kVocabBlock).ok());
    pointers.push_back(&ranks[i]);
  }
  return runs_of(pointers);
}

void expect_equal(const std::vector<BlockSum>& found, const std::vector<BlockSum>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(found[i].max, wanted[i].max);
    EXPECT_EQ(found[i].sum, wanted[i].sum);
  }
}

TEST(BlockSumsTest, RunsHaveTheSameBitsForEverySplitOverRanks) {
  for (const size_t count :
       {size_t{1}, size_t{15}, size_t{16}, size_t{17}, size_t{32}, size_t{53}}) {
    SCOPED_TRACE(count);
    const std::vector<BlockSum> blocks = some_blocks(count);
    const std::vector<BlockSum> wanted = runs_over(blocks, {0, count});
    EXPECT_EQ(wanted.size(), (count + 15) / 16);
    for (size_t first = 0; first <= count; ++first) {
      for (size_t second = first; second <= count; ++second) {
        expect_equal(runs_over(blocks, {0, first, second, count}), wanted);
      }
    }
  }
}

TEST(BlockSumsTest, ARunSumsItsBlocks) {
  const std::vector<BlockSum> blocks = some_blocks(16);
  const BlockSum run = fold(blocks);
  double sum = 0;
  for (const BlockSum& block : blocks) {
    EXPECT_LE(block.max, run.max);
    sum += std::exp(double{block.max} - double{run.max}) * double{block.sum};
  }
  EXPECT_NEAR(run.sum, sum, 1e-6 * sum);
}

TEST(BlockSumsTest, BlocksWithNonFiniteSumsAddNothing) {
  const float nan = std::nanf("");
  EXPECT_EQ(fold({}).max, -kInfinity);
  for (const BlockSum& none :
       {BlockSum{-kInfinity, 0}, BlockSum{nan, nan}, BlockSum{1, nan}, BlockSum{1, kInfinity}}) {
    const std::vector<BlockSum> blocks = {{2, 3}, none, {2, 5}};
    EXPECT_EQ(fold(blocks).max, 2);
    EXPECT_EQ(fold(blocks).sum, 8);
    EXPECT_EQ(fold(std::vector<BlockSum>{{-kInfinity, 0}, none}).sum, 0);
  }
  EXPECT_EQ(fold(std::vector<BlockSum>{{kInfinity, 3}, {2, 5}}).sum, 3);
}

TEST(BlockSumsTest, SumsThatDoNotMatchTheVocabularyAreRefused) {
  constexpr int64_t kVocab = 40 * kVocabBlock;
  cluster::BlockSums good;
  set_sums(10, some_blocks(24), &good);
  ASSERT_EQ(good.max_size(), 6 + 1 + 2);
  EXPECT_TRUE(check_sums(good, kVocab).ok());
  EXPECT_TRUE(check_sums({}, kVocab).ok());
  const auto refused = [](cluster::BlockSums sums, const auto& change) {
    change(sums);
    return !check_sums(sums, kVocab).ok();
  };
  for (const int64_t bad : {int64_t{-1}, int64_t{17}, int64_t{41}, INT64_MAX, INT64_MIN}) {
    EXPECT_TRUE(refused(good, [&](auto& sums) { sums.set_first_block(bad); })) << bad;
  }
  for (const int64_t bad : {int64_t{-1}, int64_t{31}, INT64_MAX, INT64_MIN}) {
    EXPECT_TRUE(refused(good, [&](auto& sums) { sums.set_blocks(bad); })) << bad;
  }
  EXPECT_TRUE(refused(good, [](auto& sums) { sums.add_max(0); }));
  EXPECT_TRUE(refused(good, [](auto& sums) { sums.mutable_sum()->RemoveLast(); }));
  EXPECT_TRUE(refused({}, [](auto& sums) { sums.add_sum(0); }));
}

}  // namespace
}  // namespace lockstep
