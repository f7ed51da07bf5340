// SPDX-License-Identifier: Apache-2.0
// Gate and up stay inside the kernel that computes them: their rows alternate in the weight, so one
// thread has both sums of a pair. The bits are those of linear and gated.
#include <optional>
#include <utility>
#include <vector>

#include "sharding/layout/cut.h"
#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {
namespace {

// A linear whose halves are the gate and the up of a `gated` node.
struct Halves {
  const Node* linear = nullptr;  // Null: there is no such linear.
  bool up_first = false;
};

Halves halves_of(const Graph& graph, const std::vector<int>& uses, const Node& node) {
  if (node.op != Op::kGated) return {};
  const Node* gate = only_maker(graph, uses, node.inputs[0], Op::kColumns);
  const Node* up = only_maker(graph, uses, node.inputs[1], Op::kColumns);
  if (gate == nullptr || up == nullptr || gate->inputs != up->inputs) return {};
  const int whole = gate->inputs[0];
  const Node& linear = graph.nodes()[graph.values()[whole].node];
  if (linear.op != Op::kLinear || uses[whole] != 2) return {};
  if (graph.parameters()[linear.parameters[0]].dtype == DType::kF32) return {};
  const auto takes = [half = graph.values()[whole].axis.columns() / 2](const Node& view,
                                                                       int which) {
    const program::ColumnsAttrs& columns = view.attributes.columns();
    return columns.begin() == which * half && columns.end() == (which + 1) * half;
  };
  if (takes(*gate, 0) && takes(*up, 1)) return {&linear, false};
  if (takes(*gate, 1) && takes(*up, 0)) return {&linear, true};
  return {};
}

Parameter paired(const Parameter& stacked, bool up_first) {
  Parameter result = stacked;
  result.paired = true;
  if (!up_first) return result;
  const bool vector = stacked.is_vector();
  const int64_t half = (vector ? stacked.cols : stacked.rows).count / 2;
  const auto part = [&](Range range) {
    return (vector ? cut_cols(stacked, range) : cut_rows(stacked, range)).pieces;
  };
  result.pieces = part({half, 2 * half});
  for (program::Piece& piece : part({0, half})) result.pieces.push_back(std::move(piece));
  return result;
}

Node fused(Rewriter& rewriter, const Node& gated, const Halves& halves) {
  const Node& linear = *halves.linear;
  Node node{.op = Op::kGatedLinear,
            .inputs = {rewriter.value(linear.inputs[0])},
            .attributes = gated.attributes};
  for (const int id : linear.parameters) {
    const Parameter& stacked = rewriter.from().parameters()[id];
    node.parameters.push_back(rewriter.add_parameter(paired(stacked, halves.up_first)));
  }
  return node;
}

}  // namespace

Graph fuse_gated_linear(const Graph& graph, const CompileOptions& options) {
  if (!are_gpus(options.workers)) return graph;
  return fuse_nodes(
      graph, [&, uses = use_counts(graph)](const Node& gated) -> std::optional<Fusion> {
        const Halves halves = halves_of(graph, uses, gated);
        if (halves.linear == nullptr) return std::nullopt;
        const auto maker = [&](int value) { return &graph.nodes()[graph.values()[value].node]; };
        const auto node = [&, halves](Rewriter& to) { return fused(to, gated, halves); };
        return Fusion{{&gated, halves.linear, maker(gated.inputs[0]), maker(gated.inputs[1])},
                      node,
                      gated.outputs};
      });
}

}  // namespace lockstep
