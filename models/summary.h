// SPDX-License-Identifier: Apache-2.0
// The figures of a graph that a model is known by, for people and for checks against other
// programs.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/graph/graph.h"

namespace lockstep {

// A table of rotary angles: of its (first) set of inverse frequencies those that turn.
struct RotarySummary {
  int64_t count = 0;
  float first = 0;
  float last = 0;
  float factor = 1;  // Multiplies cos and sin.

  friend auto operator<=>(const RotarySummary&, const RotarySummary&) = default;
};

struct Summary {
  std::map<std::string, std::vector<int64_t>> tensors;  // That weights are read from: their shapes.
  int64_t parameters = 0;                               // Elements of these.
  std::vector<RotarySummary> rotary;                    // In ascending order, each once.
  // Of each layer with attention: how many positions a query sees at most, in a window or a run
  // (AttentionAttrs), or 0: all of them.
  std::map<int, int64_t> windows;
};

Summary summarize(const Graph& graph);

}  // namespace lockstep
