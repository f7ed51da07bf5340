// SPDX-License-Identifier: Apache-2.0
// In the fused kernel the sum is still in the cache when the norm reads it. Only the first norm of
// a sum is fused with it.
#include <optional>
#include <vector>

#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {

Graph fuse_add_norm(const Graph& graph, const CompileOptions&) {
  return fuse_nodes(graph, [&](const Node& norm) -> std::optional<Fusion> {
    if (norm.op != Op::kRmsNorm) return std::nullopt;
    const Node& add = graph.nodes()[graph.values()[norm.inputs[0]].node];
    if (add.op != Op::kAdd) return std::nullopt;
    const auto add_norm = [&](Rewriter& to) {
      return Node{.op = Op::kAddNorm,
                  .inputs = {to.value(add.inputs[0]), to.value(add.inputs[1])},
                  .parameters = {to.parameter(norm.parameters[0])},
                  .attributes = norm.attributes};
    };
    return Fusion{{&add, &norm}, add_norm, {add.outputs[0], norm.outputs[0]}};
  });
}

}  // namespace lockstep
