// SPDX-License-Identifier: Apache-2.0
// Turns a rank's graph into the Program that its worker runs: values placed in the arena, weights
// with their recipes, the states of layers, instructions in order. The operator `columns` becomes
// an instruction that does nothing but define a view.
#pragma once

#include <string>

#include "models/graph/graph.h"
#include "sharding/compile_options.h"
#include "sharding/lowering/plan_memory.h"

namespace lockstep {

struct LowerArgs {
  int rank = 0;
  int ranks = 1;
  std::string numeric_class = {};  // The class of the whole group.
  int64_t vocab = 0;               // Ids of the whole model.
  int64_t hidden = 0;
};

program::Program lower(const Graph& graph, const MemoryPlan& memory, const CompileOptions& options,
                       const LowerArgs& args);

}  // namespace lockstep
