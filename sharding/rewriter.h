// SPDX-License-Identifier: Apache-2.0
// The base of every pass: builds a new graph from an old one and maps old values to new ones.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "models/graph/graph.h"

namespace lockstep {

// Lives for one pass. Methods take nodes and values of the old graph, unless their comment says
// otherwise; they return values of the new one.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from);

  // Appends the node unchanged, or with other descriptions of its outputs.
  void copy(const Node& node);
  void copy(const Node& node, std::vector<ValueInfo> outputs);
  // Appends the node with `first`, a value of the new graph, as its first operand.
  void copy_reading(int first, const Node& node);
  // The node with its operands replaced by those of the new graph.
  Node translated(const Node& node);
  // Appends a node whose operands already belong to the new graph.
  std::vector<Value> append(Node node, std::vector<ValueInfo> outputs);
  // Appends the operator that rounds an old value to a type; returns its result.
  int append_rounded(int old, DType dtype);

  int value(int old) const;
  void replace(int old, int fresh);
  int parameter(int old);  // Copied on first use, so unused ones are dropped.
  int add_parameter(Parameter parameter) { return to_.add_parameter(std::move(parameter)); }

  const Graph& from() const { return from_; }
  Graph take() && { return std::move(to_); }

 private:
  const Graph& from_;
  Graph to_;
  std::vector<int> values_;  // Old to new; -1: none yet.
  std::vector<int> parameters_;
};

// Nodes that become one node.
struct Fusion {
  std::vector<const Node*> nodes;       // The new node takes the place of the first.
  std::function<Node(Rewriter&)> node;  // Makes the new node, with the new graph's operands.
  std::vector<int> outputs;             // The old values that its outputs replace.
};

// Calls `match` once per node, in order, and applies every fusion that `match` returns. If two
// fusions have the same first node, only the one returned earlier is applied.
Graph fuse_nodes(const Graph& graph,
                 const std::function<std::optional<Fusion>(const Node&)>& match);

// The description of a value after rounding to a type.
ValueInfo rounded_info(ValueInfo info, DType dtype);

// The number of times that each value is an input.
std::vector<int> use_counts(const Graph& graph);

// The node that makes a value, if it is this operator and the value is an input exactly once; else
// null. `uses` is use_counts(graph).
const Node* only_maker(const Graph& graph, const std::vector<int>& uses, int value, Op op);

}  // namespace lockstep
