// SPDX-License-Identifier: Apache-2.0
// One wide product replaces several: the input is read once, and a step starts fewer kernels. The
// arithmetic of each column is unchanged.
#include <map>
#include <tuple>
#include <vector>

#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {
namespace {

using Key = std::tuple<int, DType, bool>;  // Input, the weight's type, whether it has a bias.

bool fusible(const Graph& graph, const Node& node) {
  return node.op == Op::kLinear &&
         graph.parameters()[node.parameters[0]].role == program::LINEAR_WEIGHT;
}

Key key_of(const Graph& graph, const Node& node) {
  return {node.inputs[0], graph.parameters()[node.parameters[0]].dtype, node.parameters.size() > 1};
}

// Stacks weights vertically, biases side by side.
Parameter stack(const Graph& graph, const std::vector<const Node*>& members, size_t which) {
  Parameter result = graph.parameters()[members[0]->parameters[which]];
  AxisSize& axis = which == 0 ? result.rows : result.cols;
  axis = {Axis::kNone, 0, 1};
  result.pieces.clear();
  result.name.clear();
  for (const Node* member : members) {
    const Parameter& part = graph.parameters()[member->parameters[which]];
    axis.count += (which == 0 ? part.rows : part.cols).columns();
    result.pieces.insert(result.pieces.end(), part.pieces.begin(), part.pieces.end());
    result.name += (result.name.empty() ? "" : "+") + part.name;
  }
  return result;
}

void fuse(Rewriter& rewriter, const std::vector<const Node*>& members) {
  const Graph& graph = rewriter.from();
  Node node{.op = Op::kLinear, .inputs = {rewriter.value(members[0]->inputs[0])}};
  for (size_t i = 0; i < members[0]->parameters.size(); ++i) {
    node.parameters.push_back(rewriter.add_parameter(stack(graph, members, i)));
  }
  ValueInfo all = graph.values()[members[0]->outputs[0]];
  all.axis = {Axis::kNone, 0, 1};
  all.name.clear();
  for (const Node* member : members) {
    const ValueInfo& part = graph.values()[member->outputs[0]];
    all.axis.count += part.axis.columns();
    all.name += (all.name.empty() ? "" : "+") + part.name;
  }
  const int fused = rewriter.append(std::move(node), {std::move(all)}).front().id;
  int64_t begin = 0;
  for (const Node* member : members) {
    const ValueInfo& part = graph.values()[member->outputs[0]];
    Node view{.op = Op::kColumns, .inputs = {fused}};
    view.attributes.mutable_columns()->set_begin(begin);
    begin += part.axis.columns();
    view.attributes.mutable_columns()->set_end(begin);
    rewriter.replace(member->outputs[0], rewriter.append(std::move(view), {part}).front().id);
  }
}

}  // namespace

Graph fuse_linears(const Graph& graph, const CompileOptions&) {
  std::map<Key, std::vector<const Node*>> groups;
  for (const Node& node : graph.nodes()) {
    if (fusible(graph, node)) groups[key_of(graph, node)].push_back(&node);
  }
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    const std::vector<const Node*> alone = {&node};
    const std::vector<const Node*>& group =
        fusible(graph, node) ? groups[key_of(graph, node)] : alone;
    if (group.size() == 1) {
      rewriter.copy(node);
    } else if (group[0] == &node) {
      fuse(rewriter, group);
    }
  }
  return std::move(rewriter).take();
}

}  // namespace lockstep
