// SPDX-License-Identifier: Apache-2.0
// A softmax's sums over the whole vocabulary, with the same bits however it is cut over ranks. Each
// block of kVocabBlock ids has a sum; those of a group, kBlocksPerGroup blocks counted from id 0,
// are folded into one, and groups are added up in order. A rank folds the groups that it has whole
// and sends other blocks one by one; the coordinator folds these in the same way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "operators/block_sum.h"
#include "proto/cluster.pb.h"

namespace lockstep {

inline constexpr int64_t kBlocksPerGroup = 16;

// Blocks in order of ids. One without a finite part adds nothing.
BlockSum fold(std::span<const BlockSum> blocks);

// Fills `to` with the blocks of a rank whose first one is the vocabulary's block `first_block`.
void set_sums(int64_t first_block, std::span<const BlockSum> blocks, cluster::BlockSums* to);

// Whether a rank's sums fit each other and a vocabulary of `vocab` ids. kInvalidArgument names the
// field.
absl::Status check_sums(const cluster::BlockSums& sums, int64_t vocab);

// The sums of all groups, of ranks in order of ids; each passed check_sums(). The last group may be
// a part of one.
std::vector<BlockSum> groups_of(std::span<const cluster::BlockSums* const> ranks);

}  // namespace lockstep
