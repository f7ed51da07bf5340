// SPDX-License-Identifier: Apache-2.0
// Maps old values and parameters to new ones; the maps are filled as nodes are appended.
#include "sharding/rewriter.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "base/numbers/quantization.h"

namespace lockstep {

Rewriter::Rewriter(const Graph& from)
    : from_(from), values_(from.values().size(), -1), parameters_(from.parameters().size(), -1) {
  to_.model = from.model;
  to_.row_domains = from.row_domains;
  to_.sequence_rules = from.sequence_rules;
}

void Rewriter::copy(const Node& node) {
  std::vector<ValueInfo> outputs;
  for (int output : node.outputs) outputs.push_back(from_.values()[output]);
  copy(node, std::move(outputs));
}

void Rewriter::copy(const Node& node, std::vector<ValueInfo> outputs) {
  const std::vector<Value> values = append(translated(node), std::move(outputs));
  for (size_t i = 0; i < values.size(); ++i) replace(node.outputs[i], values[i].id);
}

void Rewriter::copy_reading(int first, const Node& node) {
  const int exact = std::exchange(values_[node.inputs[0]], first);
  copy(node);
  values_[node.inputs[0]] = exact;
}

Node Rewriter::translated(const Node& node) {
  Node fresh{.op = node.op, .attributes = node.attributes};
  for (int input : node.inputs) fresh.inputs.push_back(value(input));
  for (int old : node.parameters) fresh.parameters.push_back(parameter(old));
  return fresh;
}

std::vector<Value> Rewriter::append(Node node, std::vector<ValueInfo> outputs) {
  return to_.append(std::move(node), std::move(outputs));
}

int Rewriter::append_rounded(int old, DType dtype) {
  Node node{.op = is_rounded(dtype) ? Op::kRoundGroups : Op::kCast, .inputs = {value(old)}};
  return append(std::move(node), {rounded_info(from_.values()[old], dtype)}).front().id;
}

int Rewriter::value(int old) const {
  LOCKSTEP_CHECK(values_[old] >= 0);
  return values_[old];
}

void Rewriter::replace(int old, int fresh) { values_[old] = fresh; }

int Rewriter::parameter(int old) {
  if (parameters_[old] < 0) parameters_[old] = add_parameter(from_.parameters()[old]);
  return parameters_[old];
}

namespace {

void append_fusion(Rewriter& rewriter, const Fusion& fusion) {
  std::vector<ValueInfo> infos;
  for (const int output : fusion.outputs) infos.push_back(rewriter.from().values()[output]);
  const std::vector<Value> values = rewriter.append(fusion.node(rewriter), std::move(infos));
  for (size_t i = 0; i < values.size(); ++i) rewriter.replace(fusion.outputs[i], values[i].id);
}

}  // namespace

Graph fuse_nodes(const Graph& graph,
                 const std::function<std::optional<Fusion>(const Node&)>& match) {
  const size_t count = graph.nodes().size();
  std::vector<std::optional<Fusion>> fusions(count);  // By the first node.
  std::vector<bool> gone(count);
  const auto index = [&](const Node* node) { return node - graph.nodes().data(); };
  for (const Node& node : graph.nodes()) {
    std::optional<Fusion> found = match(node);
    if (!found || fusions[index(found->nodes[0])]) continue;
    for (size_t i = 1; i < found->nodes.size(); ++i) gone[index(found->nodes[i])] = true;
    fusions[index(found->nodes[0])] = std::move(found);
  }
  Rewriter rewriter(graph);
  for (size_t i = 0; i < count; ++i) {
    if (gone[i]) continue;
    if (fusions[i]) {
      append_fusion(rewriter, *fusions[i]);
    } else {
      rewriter.copy(graph.nodes()[i]);
    }
  }
  return std::move(rewriter).take();
}

ValueInfo rounded_info(ValueInfo info, DType dtype) {
  info.dtype = dtype;
  info.name += "." + std::string(dtype_short_name(dtype));
  return info;
}

std::vector<int> use_counts(const Graph& graph) {
  std::vector<int> counts(graph.values().size());
  for (const Node& node : graph.nodes()) {
    for (int input : node.inputs) ++counts[input];
  }
  return counts;
}

const Node* only_maker(const Graph& graph, const std::vector<int>& uses, int value, Op op) {
  const Node& maker = graph.nodes()[graph.values()[value].node];
  return maker.op == op && uses[value] == 1 ? &maker : nullptr;
}

}  // namespace lockstep
