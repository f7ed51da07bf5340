// SPDX-License-Identifier: Apache-2.0
// The place of every value, in its rank's arena or in the memory that ranks share: planned once,
// for the largest step.
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph/graph.h"

namespace lockstep {

struct Placement {
  int64_t offset_bytes = 0;
  int64_t stride = 0;  // Elements.
  bool shared = false;
};

struct MemoryPlan {
  std::vector<Placement> placements;  // By value.
  int64_t arena_bytes = 0;
  int64_t shared_bytes = 0;
};

// Values that live at the same time share no byte, except views of columns and results computed in
// place over an input that is not read again. Logits stay valid after the step.
// The result of all_gather is in shared memory, at the same offset for all ranks. A rank computes
// its part directly there, so nothing is copied. Between two collectives, and before a step's first
// one, no rank writes shared memory that another rank may still read.
MemoryPlan plan_memory(const Graph& graph, const program::Limits& limits, int rank);

}  // namespace lockstep
