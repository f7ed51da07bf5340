// SPDX-License-Identifier: Apache-2.0
// The sum is in the cache when its norm is taken. The first norm of a sum goes with it; others
// stay.
#include <vector>

#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {

Graph fuse_add_norm(const Graph& graph, const CompileOptions&) {
  const size_t count = graph.nodes().size();
  std::vector<const Node*> norm_of(count);  // By add.
  std::vector<bool> gone(count);
  for (size_t i = 0; i < count; ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op != Op::kRmsNorm) continue;
    const int producer = graph.values()[node.inputs[0]].node;
    if (graph.nodes()[producer].op != Op::kAdd || norm_of[producer] != nullptr) continue;
    norm_of[producer] = &node;
    gone[i] = true;
  }
  Rewriter rewriter(graph);
  for (size_t i = 0; i < count; ++i) {
    const Node& node = graph.nodes()[i];
    if (gone[i]) continue;
    if (norm_of[i] == nullptr) {
      rewriter.copy(node);
      continue;
    }
    const Node& norm = *norm_of[i];
    Node fused{.op = Op::kAddNorm, .attributes = norm.attributes};
    for (int input : node.inputs) fused.inputs.push_back(rewriter.value(input));
    fused.parameters = {rewriter.parameter(norm.parameters[0])};
    const std::vector<Value> values = rewriter.append(
        std::move(fused), {graph.values()[node.outputs[0]], graph.values()[norm.outputs[0]]});
    rewriter.replace(node.outputs[0], values[0].id);
    rewriter.replace(norm.outputs[0], values[1].id);
  }
  return std::move(rewriter).take();
}

}  // namespace lockstep
