// SPDX-License-Identifier: Apache-2.0
// The prefix of a part's names: Scope layer(g, "model.layers.3").
#pragma once

#include <string>

namespace lockstep {

class Graph;

// Adds its name to the prefix of all names that the graph's builders get during its life.
class Scope {
 public:
  Scope(Graph& graph, std::string name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Graph& graph_;
};

}  // namespace lockstep
