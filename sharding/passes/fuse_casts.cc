// SPDX-License-Identifier: Apache-2.0
// The bits are those of the cast, which is one kernel less and half of the bytes, twice: written
// and read.
#include <utility>
#include <vector>

#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {

Graph fuse_casts(const Graph& graph, const CompileOptions& options) {
  if (!are_gpus(options.workers)) return graph;
  const std::vector<int> uses = use_counts(graph);
  std::vector<const Node*> cast_of(graph.nodes().size());  // By the node that gives its input.
  std::vector<bool> gone(graph.nodes().size());
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op != Op::kCast || uses[node.inputs[0]] != 1) continue;
    const int producer = graph.values()[node.inputs[0]].node;
    const Node& maker = graph.nodes()[producer];
    if (!schema_of(maker.op).may_round() || maker.outputs.back() != node.inputs[0]) continue;
    cast_of[producer] = &node;
    gone[i] = true;
  }
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (gone[i]) continue;
    if (cast_of[i] == nullptr) {
      rewriter.copy(node);
      continue;
    }
    const int rounded = cast_of[i]->outputs[0];
    std::vector<ValueInfo> outputs;
    for (int output : node.outputs) outputs.push_back(graph.values()[output]);
    outputs.back() = graph.values()[rounded];
    rewriter.copy(node, std::move(outputs));
    rewriter.replace(rounded, rewriter.value(node.outputs.back()));
  }
  return std::move(rewriter).take();
}

}  // namespace lockstep
