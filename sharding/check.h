// SPDX-License-Identifier: Apache-2.0
// What holds of a graph after every pass.
#pragma once

#include "absl/status/status.h"
#include "models/graph/graph.h"

namespace lockstep {

// Values are made once, before they are read; operands, types, rows and columns fit every operator;
// parameters are exactly their pieces. kInternal names the node: it is our bug.
absl::Status check_graph(const Graph& graph);

}  // namespace lockstep
