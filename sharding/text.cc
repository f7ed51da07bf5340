// SPDX-License-Identifier: Apache-2.0
// One line per node; attributes in braces, spelled as in program.proto.
#include "sharding/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/numbers/dtype.h"
#include "proto/attributes.h"

namespace lockstep {
namespace {

std::string value_type(const Graph& graph, const ValueInfo& info) {
  const std::string& rows = graph.row_domains[info.rows].name();
  const std::string axis =
      info.axis.axis == Axis::kNone ? "" : fmt::format("{} ", axis_name(info.axis.axis));
  return fmt::format("{} [{}, {}{}]", dtype_short_name(info.dtype), rows, axis,
                     info.axis.columns());
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

}  // namespace

std::string node_text(const Graph& graph, const Node& node) {
  std::vector<std::string> results, operands, types;
  for (int output : node.outputs) {
    results.push_back(fmt::format("%{}", output));
    types.push_back(value_type(graph, graph.values()[output]));
  }
  for (int input : node.inputs) operands.push_back(fmt::format("%{}", input));
  for (int id : node.parameters) {
    const Parameter& parameter = graph.parameters()[id];
    operands.push_back(fmt::format("{} {} [{}, {}]", parameter.name,
                                   dtype_short_name(parameter.dtype), parameter.all_rows(),
                                   parameter.all_cols()));
  }
  std::string text = results.empty() ? "" : fmt::format("{} = ", fmt::join(results, ", "));
  text += fmt::format("{}({})", op_name(node.op), fmt::join(operands, ", "));
  const std::string attributes = attributes_text(node.attributes, true);
  if (!attributes.empty()) text += fmt::format(" {{{}}}", attributes);
  if (!types.empty()) text += fmt::format(" : {}", fmt::join(types, ", "));
  return text;
}

std::string graph_text(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) text += node_text(graph, node) + "\n";
  return text;
}

std::string graph_dot(const Graph& graph) {
  std::string text = fmt::format("digraph {} {{\n  node [shape=box, fontname=\"monospace\"];\n",
                                 quoted(graph.model));
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    std::string label(op_name(node.op));
    for (int id : node.parameters) label += "\\n" + graph.parameters()[id].name;
    text += fmt::format("  n{} [label=\"{}\"];\n", i, label);
    for (int input : node.inputs) {
      const ValueInfo& info = graph.values()[input];
      text +=
          fmt::format("  n{} -> n{} [label={}];\n", info.node, i, quoted(value_type(graph, info)));
    }
  }
  return text + "}\n";
}

}  // namespace lockstep
