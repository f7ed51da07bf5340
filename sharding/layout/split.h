// SPDX-License-Identifier: Apache-2.0
// Derives one rank's graph from the model's: applies the layout rules node by node. A collective is
// directly before the first operator that needs a whole value.
#pragma once

#include "absl/status/statusor.h"
#include "models/graph/graph.h"
#include "sharding/layout/plan.h"
#include "sharding/layout/value_parts.h"

namespace lockstep {

// The graphs of all ranks of a plan have the same nodes in the same order, with other sizes.
// kInternal: an operator without a rule, or a value that cannot get the layout that a rule needs.
// `parts`, unless null, receives the rank's parts of the model's values.
absl::StatusOr<Graph> split(const Graph& model, const Plan& plan, int rank,
                            ValueParts* parts = nullptr);

}  // namespace lockstep
