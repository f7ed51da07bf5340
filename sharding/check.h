// SPDX-License-Identifier: Apache-2.0
// A check of graphs, run after every pass.
#pragma once

#include "absl/status/status.h"
#include "models/graph/graph.h"

namespace lockstep {

// Checks that each value is made once, before it is read; that operands, types, rows and columns
// fit every operator; that parameters consist exactly of their pieces. kInternal (our bug) names
// the node.
absl::Status check_graph(const Graph& graph);

}  // namespace lockstep
