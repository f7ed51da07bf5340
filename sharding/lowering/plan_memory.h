// SPDX-License-Identifier: Apache-2.0
// Where every value is, in its rank's arena or in the memory that ranks share: planned once, for
// the largest step.
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

// Values that live at once share no byte, but for views of columns and for what is computed in
// place over an input that dies. Logits are kept to the end of the step and beyond.
// What all_gather gives is shared, at the same place for all ranks, and what a rank gives for it is
// computed where it belongs there, so that nothing is copied. Between two collectives no rank
// writes shared memory that another may still read, nor before a step's first one.
MemoryPlan plan_memory(const Graph& graph, const program::Limits& limits, int rank);

}  // namespace lockstep
