// SPDX-License-Identifier: Apache-2.0
// The factors of a product commute exactly, so the map may be either factor.
#include <optional>
#include <vector>

#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {

Graph fuse_gated(const Graph& graph, const CompileOptions&) {
  return fuse_nodes(graph, [&, uses = use_counts(graph)](const Node& mul) -> std::optional<Fusion> {
    if (mul.op != Op::kMul) return std::nullopt;
    for (size_t side = 0; side < 2; ++side) {
      const Node* map = only_maker(graph, uses, mul.inputs[side], Op::kMap);
      if (map == nullptr) continue;
      const auto gated = [map, gate = map->inputs[0], up = mul.inputs[1 - side]](Rewriter& to) {
        return Node{.op = Op::kGated,
                    .inputs = {to.value(gate), to.value(up)},
                    .attributes = map->attributes};
      };
      return Fusion{{&mul, map}, gated, mul.outputs};
    }
    return std::nullopt;
  });
}

}  // namespace lockstep
