// SPDX-License-Identifier: Apache-2.0
// How a value is laid out on the ranks, and one local rule per operator over that: all there is to
// sharding. A rule sees its own node only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "models/graph/graph.h"
#include "sharding/layout/plan.h"

namespace lockstep {

enum class LayoutKind : uint8_t {
  kWhole,    // Every rank has all columns, with the same bits.
  kSplit,    // Every rank has its own columns of `axis`.
  kPartial,  // Every rank has an addend of all columns.
};

struct Layout {
  LayoutKind kind = LayoutKind::kWhole;
  Axis axis = Axis::kNone;  // Of kSplit.
  bool operator==(const Layout&) const = default;
};
inline constexpr Layout kWholeLayout = {};
inline constexpr Layout kPartialLayout = {LayoutKind::kPartial, Axis::kNone};
constexpr Layout split_over(Axis axis) { return {LayoutKind::kSplit, axis}; }

enum class ParameterCut : uint8_t {
  kWhole,
  kRows,
  kCols,
  kFirstRank,  // Rank 0 alone has it: a bias on a partial is one rank's addend.
};

struct Decision {
  std::vector<Layout> inputs;  // As they are, or kWholeLayout where the operator needs that.
  std::vector<Layout> outputs;
  std::vector<ParameterCut> parameters;
};

// `inputs` are the layouts of the node's values. Our bug (kInternal): an operator that has no rule.
absl::StatusOr<Decision> decide(const Graph& graph, const Node& node,
                                std::span<const Layout> inputs, const Plan& plan);

// What one rank's node says instead of the model's: its heads, its first id.
program::Attributes local_attributes(const Graph& graph, const Node& node, const Plan& plan,
                                     int rank);

}  // namespace lockstep
