// SPDX-License-Identifier: Apache-2.0
// Key figures of a graph, for people and for comparison with other programs.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/graph/graph.h"

namespace lockstep {

// A table of rotary angles: the nonzero inverse frequencies of its (first) set.
struct RotarySummary {
  int64_t count = 0;
  float first = 0;
  float last = 0;
  float factor = 1;  // Multiplies cos and sin.

  friend auto operator<=>(const RotarySummary&, const RotarySummary&) = default;
};

struct Summary {
  std::map<std::string, std::vector<int64_t>> tensors;  // A weight's source -> its shape.
  int64_t parameters = 0;                               // Elements of all tensors.
  std::vector<RotarySummary> rotary;                    // In ascending order, without repetition.
  // For each layer with attention: the max number of positions that a query sees, which a window or
  // a chunk limits (AttentionAttrs); 0: all of them.
  std::map<int, int64_t> windows;
};

Summary summarize(const Graph& graph);

}  // namespace lockstep
