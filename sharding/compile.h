// SPDX-License-Identifier: Apache-2.0
// Graph -> one Program per rank: passes that keep axes, the cut, passes on each rank's graph,
// lowering. Pure: the same input gives the same programs, byte for byte.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "models/graph/graph.h"
#include "proto/program.pb.h"
#include "sharding/compile_options.h"

namespace lockstep {

// One line that says what to change. kInvalidArgument: more ranks than query heads, or another
// error of the user's; kFailedPrecondition: workers without a numeric class in common.
absl::StatusOr<std::vector<program::Program>> compile(const Graph& graph,
                                                      const CompileOptions& options);

// Every rank's graph just before lowering: what tests interpret.
absl::StatusOr<std::vector<Graph>> compile_graphs(const Graph& graph,
                                                  const CompileOptions& options);

}  // namespace lockstep
