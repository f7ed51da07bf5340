// SPDX-License-Identifier: Apache-2.0
// One rank's graph out of the model's: the layout rules applied node by node, with a collective
// directly before the first operator that needs a whole value.
#pragma once

#include "absl/status/statusor.h"
#include "models/graph/graph.h"
#include "sharding/layout/plan.h"
#include "sharding/layout/value_parts.h"

namespace lockstep {

// Graphs of all ranks of a plan have the same nodes in the same order, in other sizes. kInternal:
// an operator without a rule, or a cut that cannot be undone. `parts`, unless null, is told what
// the rank's values have of the model's.
absl::StatusOr<Graph> split(const Graph& model, const Plan& plan, int rank,
                            ValueParts* parts = nullptr);

}  // namespace lockstep
