// SPDX-License-Identifier: Apache-2.0
// Graph -> one Program per rank: passes that keep axes, the split, passes on each rank's graph,
// lowering. Pure: the same input gives the same programs, byte for byte.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "models/graph/graph.h"
#include "proto/program.pb.h"
#include "sharding/compile_options.h"

namespace lockstep {

// Errors are one line that says what to change. kInvalidArgument: more ranks than query heads, or
// another mistake of the user; kFailedPrecondition: workers have no common numeric class.
absl::StatusOr<std::vector<program::Program>> compile(const Graph& graph,
                                                      const CompileOptions& options);

// Every rank's graph just before lowering, for tests to interpret.
absl::StatusOr<std::vector<Graph>> compile_graphs(const Graph& graph,
                                                  const CompileOptions& options);

}  // namespace lockstep
