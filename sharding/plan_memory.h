// SPDX-License-Identifier: Apache-2.0
// Where every value lies in the arena, planned once for the largest step.
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph.h"

namespace lockstep {

struct Placement {
  int64_t offset_bytes = 0;
  int64_t stride = 0;  // Elements.
};

struct MemoryPlan {
  std::vector<Placement> placements;  // By value.
  int64_t arena_bytes = 0;
};

// Values that live at once share no byte, but for views of columns and for what is computed in
// place over an input that dies. Logits are kept to the end of the step and beyond.
MemoryPlan plan_memory(const Graph& graph, const program::Limits& limits);

}  // namespace lockstep
