// SPDX-License-Identifier: Apache-2.0
// The boundaries of every axis between ranks. They depend only on the graph's axes, the ranks
// (their number, speeds in eighths and devices), the strategy and the types of weights. So a
// restart makes the same plan.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "models/graph/graph.h"
#include "proto/validate/validate.h"
#include "sharding/compile_options.h"

namespace lockstep {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

struct Plan {
  int ranks = 1;
  Strategy strategy = Strategy::kGather;
  std::vector<int64_t> eighths = {};  // [ranks]: speeds; the fastest is 8.
  // By axis: boundaries are multiples of this many units. So quantized groups and vocabulary blocks
  // stay whole.
  std::array<int64_t, kAxisCount> grains = {1, 1, 1, 1, 1, 1, kVocabBlock};

  // Whether values over this axis are split. One rank: never. Only gather splits hidden and latent.
  bool splits(Axis axis) const;
  // The units of `rank`. For kKvHeads, they cover the rank's query heads and may overlap.
  Range units(AxisSize axis, int rank) const;
  Range columns(AxisSize axis, int rank) const;
  // The units that `rank` contributes to a whole value: all of its units, except copies of KV
  // heads, which are its last units. If several ranks have a KV head, the last of them contributes
  // it.
  Range owned(AxisSize axis, int rank) const;
  bool has_copies(AxisSize axis) const;  // Whether a rank has units that it does not own.
  // [ranks + 1]: the column at which each rank's owned columns begin; last, the number of columns.
  std::vector<int64_t> boundaries(AxisSize axis) const;
};

// Distributes `count` units by largest remainder; ties go to the lower rank. If there are enough
// units, every rank gets at least one.
std::vector<int64_t> apportion(int64_t count, std::span<const int64_t> eighths);

// kInvalidArgument: fewer than one rank; more ranks than query heads; more ranks than quantized
// groups on a split axis over which a linear sums; a speed that is negative or not finite.
absl::StatusOr<Plan> make_plan(const Graph& graph, const CompileOptions& options);

}  // namespace lockstep
