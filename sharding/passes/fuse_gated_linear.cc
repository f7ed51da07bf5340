// SPDX-License-Identifier: Apache-2.0
// Gate and up never leave the kernel that makes them: rows of both alternate in the weight, so that
// whoever has one sum of a pair has the other. Bits are those of linear and gated.
#include <utility>
#include <vector>

#include "sharding/cut.h"
#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {
namespace {

// A linear of which `gated` takes one half as its gate, the other as its up.
struct Halves {
  const Node* linear = nullptr;  // Null: it does not.
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

}  // namespace

Graph fuse_gated_linear(const Graph& graph, const CompileOptions& options) {
  if (!are_gpus(options.workers)) return graph;
  const std::vector<int> uses = use_counts(graph);
  std::vector<bool> gone(graph.nodes().size());
  for (const Node& node : graph.nodes()) {
    const Node* linear = halves_of(graph, uses, node).linear;
    if (linear == nullptr) continue;
    gone[graph.values()[linear->outputs[0]].node] = true;
    for (const int view : node.inputs) gone[graph.values()[view].node] = true;
  }
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (gone[i]) continue;
    const auto [linear, up_first] = halves_of(graph, uses, node);
    if (linear == nullptr) {
      rewriter.copy(node);
      continue;
    }
    Node fused{.op = Op::kGatedLinear,
               .inputs = {rewriter.value(linear->inputs[0])},
               .attributes = node.attributes};
    for (const int id : linear->parameters) {
      fused.parameters.push_back(rewriter.add_parameter(paired(graph.parameters()[id], up_first)));
    }
    const ValueInfo& info = graph.values()[node.outputs[0]];
    rewriter.replace(node.outputs[0], rewriter.append(std::move(fused), {info}).front().id);
  }
  return std::move(rewriter).take();
}

}  // namespace lockstep
