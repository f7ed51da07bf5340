// SPDX-License-Identifier: Apache-2.0
// Which rank holds what: the boundaries of every axis between ranks. A function of the graph's
// axes, the number of ranks and their speeds in eighths, so that a restart makes the same plan.
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
  std::vector<int64_t> eighths = {};  // [ranks]: speed, the fastest being 8.
  // By axis: boundaries are multiples of so many units. A group of quantized weights is never cut.
  std::array<int64_t, kAxisCount> grains = {1, 1, 1, 1, 1, 1, kVocabBlock};

  // Whether values over this axis are cut: none for one rank, hidden and latent under gather only.
  bool splits(Axis axis) const;
  // The units of `rank`. Those of kKvHeads cover the rank's query heads and may overlap.
  Range units(AxisSize axis, int rank) const;
  Range columns(AxisSize axis, int rank) const;
  // Those of its units that a rank gives where a value is made whole: all but copies of KV heads,
  // which the last of the ranks that hold one gives. They are the first of its units.
  Range owned(AxisSize axis, int rank) const;
  bool has_copies(AxisSize axis) const;  // Whether a rank has units that it does not own.
  // [ranks + 1], columns: where the owned ones begin.
  std::vector<int64_t> boundaries(AxisSize axis) const;
};

// `count` units by largest remainder; ties go to the lower rank. Where there are enough units,
// every rank gets one at least.
std::vector<int64_t> apportion(int64_t count, std::span<const int64_t> eighths);

// kInvalidArgument: fewer than one rank, more ranks than query heads or than groups of quantized
// weights along an axis that is contracted in parts, speeds that are negative or not finite.
absl::StatusOr<Plan> make_plan(const Graph& graph, const CompileOptions& options);

}  // namespace lockstep
