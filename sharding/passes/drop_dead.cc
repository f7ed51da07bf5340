// SPDX-License-Identifier: Apache-2.0
// Walks backwards: nodes with an effect live, and so do the nodes that make their inputs.
#include <vector>

#include "operators/schema/schema.h"
#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {

Graph drop_dead(const Graph& graph, const CompileOptions&) {
  const std::vector<Node>& nodes = graph.nodes();
  std::vector<bool> value_lives(graph.values().size());
  std::vector<bool> node_lives(nodes.size());
  for (size_t i = nodes.size(); i-- > 0;) {
    node_lives[i] = schema_of(nodes[i].op).effect;
    for (int output : nodes[i].outputs) node_lives[i] = node_lives[i] || value_lives[output];
    if (!node_lives[i]) continue;
    for (int input : nodes[i].inputs) value_lives[input] = true;
  }
  Rewriter rewriter(graph);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (node_lives[i]) rewriter.copy(nodes[i]);
  }
  return std::move(rewriter).take();
}

}  // namespace lockstep
