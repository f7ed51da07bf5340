// SPDX-License-Identifier: Apache-2.0
// What every pass has in common: a new graph grows from an old one, and old values are known by
// their counterparts.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "models/graph/graph.h"

namespace lockstep {

// Lives for one pass. Operands of nodes are the old graph's; results are the new one's.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from);

  // Appends the node as it is, or with outputs that are described otherwise.
  void copy(const Node& node);
  void copy(const Node& node, std::vector<ValueInfo> outputs);
  // Appends the node with this value of the new graph as its first operand.
  void copy_reading(int first, const Node& node);
  // The node with the new graph's operands.
  Node translated(const Node& node);
  // Appends a node whose operands are already the new graph's.
  std::vector<Value> append(Node node, std::vector<ValueInfo> outputs);
  // Appends the operator that rounds an old value to a type; what it gives.
  int append_rounded(int old, DType dtype);

  int value(int old) const;
  void replace(int old, int fresh);
  int parameter(int old);  // Copied when it is first asked for, so the unused are left behind.
  int add_parameter(Parameter parameter) { return to_.add_parameter(std::move(parameter)); }

  const Graph& from() const { return from_; }
  Graph take() && { return std::move(to_); }

 private:
  const Graph& from_;
  Graph to_;
  std::vector<int> values_;  // Old to new; -1: not there.
  std::vector<int> parameters_;
};

// Nodes that become one.
struct Fusion {
  std::vector<const Node*> nodes;       // It stands where the first of them stood.
  std::function<Node(Rewriter&)> node;  // With the new graph's operands.
  std::vector<int> outputs;             // The old values that its outputs stand for.
};

// The graph with every fusion that `match` finds, asked for each node once, in order. Of two with
// one first node, the first is made.
Graph fuse_nodes(const Graph& graph,
                 const std::function<std::optional<Fusion>(const Node&)>& match);

// A value that is rounded to a type.
ValueInfo rounded_info(ValueInfo info, DType dtype);

// How many times each value is an input.
std::vector<int> use_counts(const Graph& graph);

// The node that makes a value, where it is of this operator and the value is an input once; or
// null. `uses` are use_counts(graph).
const Node* only_maker(const Graph& graph, const std::vector<int>& uses, int value, Op op);

}  // namespace lockstep
