// SPDX-License-Identifier: Apache-2.0
// The product's two factors commute exactly, so the function may be on either side.
#include <vector>

#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {

Graph fuse_gated(const Graph& graph, const CompileOptions&) {
  const std::vector<int> uses = use_counts(graph);
  std::vector<const Node*> map_of(graph.nodes().size());  // By mul: the map to take in.
  std::vector<size_t> side_of(graph.nodes().size());
  std::vector<bool> gone(graph.nodes().size());
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    for (size_t side = 0; node.op == Op::kMul && side < 2 && map_of[i] == nullptr; ++side) {
      map_of[i] = only_maker(graph, uses, node.inputs[side], Op::kMap);
      side_of[i] = side;
    }
    if (map_of[i] != nullptr) gone[graph.values()[map_of[i]->outputs[0]].node] = true;
  }
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (gone[i]) continue;
    if (map_of[i] == nullptr) {
      rewriter.copy(node);
      continue;
    }
    const int gate = rewriter.value(map_of[i]->inputs[0]);
    const int up = rewriter.value(node.inputs[1 - side_of[i]]);
    ValueInfo info = graph.values()[node.outputs[0]];
    const Value out =
        rewriter
            .append({.op = Op::kGated, .inputs = {gate, up}, .attributes = map_of[i]->attributes},
                    {std::move(info)})
            .front();
    rewriter.replace(node.outputs[0], out.id);
  }
  return std::move(rewriter).take();
}

}  // namespace lockstep
