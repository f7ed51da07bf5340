// SPDX-License-Identifier: Apache-2.0
// One line a node; attributes in braces, in the words of program.proto.
#include "sharding/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/dtype.h"

namespace lockstep {
namespace {

std::string value_type(const ValueInfo& info) {
  const std::string axis =
      info.axis.axis == Axis::kNone ? "" : fmt::format("{} ", axis_name(info.axis.axis));
  return fmt::format("{} [{}, {}{}]", dtype_short_name(info.dtype),
                     info.rows == program::TOKENS ? "T" : "O", axis, info.axis.columns());
}

std::string rope_table_text(const program::RopeTableAttrs& table) {
  std::string text = fmt::format("inv_freq {} values", table.inv_freq_size());
  if (table.inv_freq_size() > 0) {
    text += fmt::format(" {:.6g} .. {:.6g}", table.inv_freq(0),
                        table.inv_freq(table.inv_freq_size() - 1));
  }
  text += fmt::format(", factor {:.6g}", table.factor());
  if (table.dynamic_length() > 0) {
    text += fmt::format(", dynamic from {} by {:.6g}, theta {:.6g}", table.dynamic_length(),
                        table.dynamic_factor(), table.theta());
  }
  return text;
}

std::string attention_text(const program::AttentionAttrs& attention) {
  std::string text = fmt::format("head_dim {}, heads {}, kv_heads {}, scale {:.6g}, state {}",
                                 attention.head_dim(), attention.heads(), attention.kv_heads(),
                                 attention.scale(), attention.state());
  if (attention.window() > 0) text += fmt::format(", window {}", attention.window());
  const std::vector<int> map(attention.kv_head_of().begin(), attention.kv_head_of().end());
  return text + fmt::format(", kv_head_of {}", map);
}

std::string attributes_text(const program::Attributes& attributes) {
  switch (attributes.kind_case()) {
    case program::Attributes::kEmbed:
      return fmt::format("vocab_begin {}", attributes.embed().vocab_begin());
    case program::Attributes::kNorm:
      return fmt::format("eps {:.6g}", attributes.norm().eps());
    case program::Attributes::kRopeTable:
      return rope_table_text(attributes.rope_table());
    case program::Attributes::kRope:
      return fmt::format("head_dim {}, rotary_dim {}{}", attributes.rope().head_dim(),
                         attributes.rope().rotary_dim(),
                         attributes.rope().interleaved() ? ", interleaved" : "");
    case program::Attributes::kAttention:
      return attention_text(attributes.attention());
    case program::Attributes::kTopCandidates:
      return fmt::format("vocab_begin {}", attributes.top_candidates().vocab_begin());
    case program::Attributes::kGather:
      return fmt::format("boundaries {}",
                         std::vector<int64_t>(attributes.gather().boundaries().begin(),
                                              attributes.gather().boundaries().end()));
    case program::Attributes::kColumns:
      return fmt::format("{} .. {}", attributes.columns().begin(), attributes.columns().end());
    case program::Attributes::KIND_NOT_SET:
      break;
  }
  return "";
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
    types.push_back(value_type(graph.values()[output]));
  }
  for (int input : node.inputs) operands.push_back(fmt::format("%{}", input));
  for (int id : node.parameters) {
    const Parameter& parameter = graph.parameters()[id];
    operands.push_back(fmt::format("{} {} [{}, {}]", parameter.name,
                                   dtype_short_name(parameter.dtype), parameter.rows.columns(),
                                   parameter.cols.columns()));
  }
  std::string text = results.empty() ? "" : fmt::format("{} = ", fmt::join(results, ", "));
  text += fmt::format("{}({})", op_name(node.op), fmt::join(operands, ", "));
  const std::string attributes = attributes_text(node.attributes);
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
      text += fmt::format("  n{} -> n{} [label={}];\n", info.node, i, quoted(value_type(info)));
    }
  }
  return text + "}\n";
}

}  // namespace lockstep
