// SPDX-License-Identifier: Apache-2.0
#include "proto/block_sums.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "base/numbers/exact_exps.h"
#include "base/status.h"
#include "operators/limits.h"

namespace lockstep {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Calls each(place, count) for each sum that a rank sends. The sum covers `count` of the rank's own
// blocks, from index `place` on: all blocks of a whole run, or a single other block.
template <typename Each>
void for_each_sum(int64_t first_block, int64_t blocks, const Each& each) {
  for (int64_t place = 0; place < blocks;) {
    const bool whole =
        (first_block + place) % kBlocksPerRun == 0 && blocks - place >= kBlocksPerRun;
    const int64_t count = whole ? kBlocksPerRun : 1;
    each(place, count);
    place += count;
  }
}

int64_t count_sums(int64_t first_block, int64_t blocks) {
  int64_t sums = 0;
  for_each_sum(first_block, blocks, [&](int64_t, int64_t) { ++sums; });
  return sums;
}

}  // namespace

BlockSum fold(std::span<const BlockSum> blocks) {
  LOCKSTEP_CHECK(blocks.size() <= kBlocksPerRun);
  float max = kNever;
  for (const BlockSum& block : blocks) {
    if (block.max > max) max = block.max;
  }
  std::array<double, kBlocksPerRun> weights;
  for (size_t i = 0; i < blocks.size(); ++i) weights[i] = double{blocks[i].max} - double{max};
  exact_exps(std::span(weights).first(blocks.size()));
  double sum = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const double weight = blocks[i].max == max ? 1.0 : weights[i];  // Also if max is infinite.
    const double part = weight * double{blocks[i].sum};
    sum += part - part == 0 ? part : 0;
  }
  return {max, static_cast<float>(sum)};
}

void set_sums(int64_t first_block, std::span<const BlockSum> blocks, cluster::BlockSums* to) {
  const auto size = static_cast<int64_t>(blocks.size());
  const auto sums = static_cast<int>(count_sums(first_block, size));
  to->set_first_block(first_block);
  to->set_blocks(size);
  to->mutable_max()->Reserve(sums);
  to->mutable_sum()->Reserve(sums);
  for_each_sum(first_block, size, [&](int64_t place, int64_t count) {
    const std::span part = blocks.subspan(static_cast<size_t>(place), static_cast<size_t>(count));
    const BlockSum one = count == 1 ? part.front() : fold(part);
    to->add_max(one.max);
    to->add_sum(one.sum);
  });
}

absl::Status check_sums(const cluster::BlockSums& sums, int64_t vocab) {
  const int64_t all = (vocab + kVocabBlock - 1) / kVocabBlock;
  const int64_t first = sums.first_block(), blocks = sums.blocks();
  if (first < 0 || first > all || blocks < 0 || blocks > all - first) {
    return invalid_argument("BlockSums: must be blocks of 0 to {}, found {} from {} on", all,
                            blocks, first);
  }
  const int64_t wanted = count_sums(first, blocks);
  if (sums.max_size() == wanted && sums.sum_size() == wanted) return absl::OkStatus();
  return invalid_argument("BlockSums: must have {} sums for {} blocks from {} on, found {} and {}",
                          wanted, blocks, first, sums.max_size(), sums.sum_size());
}

std::vector<BlockSum> runs_of(std::span<const cluster::BlockSums* const> ranks) {
  std::vector<BlockSum> runs;
  std::vector<BlockSum> open;  // Blocks of a run that several ranks share.
  const auto close = [&] {
    if (!open.empty()) runs.push_back(fold(open));
    open.clear();
  };
  for (const cluster::BlockSums* rank : ranks) {
    int index = 0;
    for_each_sum(rank->first_block(), rank->blocks(), [&](int64_t place, int64_t count) {
      const BlockSum one = {rank->max(index), rank->sum(index)};
      ++index;
      if (count > 1) {
        close();
        runs.push_back(one);
        return;
      }
      open.push_back(one);
      const int64_t next = rank->first_block() + place + 1;
      if (next % kBlocksPerRun == 0 || open.size() == kBlocksPerRun) close();
    });
  }
  close();
  return runs;
}

}  // namespace lockstep
