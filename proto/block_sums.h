// SPDX-License-Identifier: Apache-2.0
// A softmax's sums over the whole vocabulary, with the same bits for any split over ranks. Each
// block of kVocabBlock ids has a sum. A run is kBlocksPerRun blocks, counted from id 0: its blocks
// are folded into one sum, and runs are added in order. A rank folds the runs that it has
// completely and sends other blocks one by one; the coordinator folds these in the same way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "operators/block_sum.h"
#include "proto/cluster.pb.h"

namespace lockstep {

inline constexpr int64_t kBlocksPerRun = 16;

// Folds the sums of one run's blocks, in order of ids. A block without a finite part adds nothing.
BlockSum fold(std::span<const BlockSum> blocks);

// Fills `to` with a rank's blocks; the first one is the vocabulary's block `first_block`.
void set_sums(int64_t first_block, std::span<const BlockSum> blocks, cluster::BlockSums* to);

// Checks that a rank's sums fit each other and a vocabulary of `vocab` ids. kInvalidArgument names
// the field.
absl::Status check_sums(const cluster::BlockSums& sums, int64_t vocab);

// The sums of all runs. `ranks` are in order of ids, and their sums passed check_sums(). The last
// run may be partial.
std::vector<BlockSum> runs_of(std::span<const cluster::BlockSums* const> ranks);

}  // namespace lockstep
