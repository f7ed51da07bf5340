// SPDX-License-Identifier: Apache-2.0
// The layout of a value on the ranks, and one local rule per operator: this is all of sharding. A
// rule sees only its own node.
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
  Axis axis = Axis::kNone;  // For kSplit.
  bool operator==(const Layout&) const = default;
};
inline constexpr Layout kWholeLayout = {};
inline constexpr Layout kPartialLayout = {LayoutKind::kPartial, Axis::kNone};
constexpr Layout split_over(Axis axis) { return {LayoutKind::kSplit, axis}; }

enum class ParameterCut : uint8_t {
  kWhole,
  kRows,
  kCols,
  kFirstRank,  // Only rank 0 has it: a bias is added to one addend of a partial value.
};

struct Decision {
  // The layouts that the operator needs: the input's own, kWholeLayout, or a split over its axis.
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
  std::vector<ParameterCut> parameters;
};

// Applies the operator's rule. `inputs`: the layouts of the node's input values. kInternal (our
// bug): an operator without a rule.
absl::StatusOr<Decision> decide(const Graph& graph, const Node& node,
                                std::span<const Layout> inputs, const Plan& plan);

// The attributes of one rank's node: its heads, its first id.
program::Attributes local_attributes(const Graph& graph, const Node& node, const Plan& plan,
                                     int rank);

}  // namespace lockstep
