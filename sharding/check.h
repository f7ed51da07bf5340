// SPDX-License-Identifier: Apache-2.0
// A check of graphs, run after every pass.
#pragma once

#include "absl/status/status.h"
#include "models/graph/graph.h"

namespace lockstep {

// Values are made once, before they are read; operands, types, rows and columns fit every operator;
// parameters consist exactly of their pieces. kInternal, our bug, names the node.
absl::Status check_graph(const Graph& graph);

}  // namespace lockstep
