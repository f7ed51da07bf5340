// SPDX-License-Identifier: Apache-2.0
// Counts of operands by the table of traits, shapes by a function an operator.
#include "sharding/check.h"

#include <array>
#include <string>
#include <vector>

#include "base/quantization.h"
#include "base/status.h"
#include "sharding/operators.h"
#include "sharding/text.h"

namespace lockstep {
namespace {

struct Operands {
  const Graph& graph;
  const Node& node;

  const ValueInfo& in(size_t i) const { return graph.values()[node.inputs[i]]; }
  const ValueInfo& out(size_t i = 0) const { return graph.values()[node.outputs[i]]; }
  const Parameter& parameter(size_t i) const { return graph.parameters()[node.parameters[i]]; }
  int64_t in_cols(size_t i) const { return in(i).axis.columns(); }
  int64_t out_cols(size_t i = 0) const { return out(i).axis.columns(); }
};

// What is wrong, or null.
using Problem = const char*;

Problem embed(const Operands& o) {
  if (o.parameter(0).role != program::EMBEDDING) return "wants an embedding";
  return o.parameter(0).cols.columns() == o.out_cols() ? nullptr : "columns of weight and output";
}

Problem linear(const Operands& o) {
  const Parameter& weight = o.parameter(0);
  if (weight.cols.columns() != o.in_cols(0)) return "columns of weight and input";
  if (weight.rows.columns() != o.out_cols()) return "rows of weight and columns of output";
  const bool quantized = quantization(weight.dtype).has_value();
  const bool fits = o.in(0).dtype == DType::kF32 || o.in(0).dtype == weight.dtype ||
                    (quantized && o.in(0).dtype == DType::kBF16);
  if (!fits) return "types of input and weight";
  if (o.node.parameters.size() < 2) return nullptr;
  return o.parameter(1).cols.columns() == o.out_cols() ? nullptr : "columns of bias and output";
}

Problem like_first(const Operands& o) {
  for (size_t i = 0; i < o.node.inputs.size(); ++i) {
    if (o.in_cols(i) != o.out_cols()) return "columns of an input and the output";
    if (o.in(i).dtype != o.out().dtype) return "types of an input and the output";
  }
  return nullptr;
}

Problem rms_norm(const Operands& o) {
  if (o.parameter(0).cols.columns() != o.in_cols(0)) return "columns of weight and input";
  return like_first(o);
}

Problem add_norm(const Operands& o) {
  if (o.out_cols(1) != o.out_cols(0)) return "columns of the outputs";
  return rms_norm(o);
}

Problem head_norm(const Operands& o) {
  const int64_t head_dim = o.node.attributes.norm().head_dim();
  if (head_dim < 1 || o.in_cols(0) % head_dim != 0) return "whole heads";
  if (o.parameter(0).cols.columns() != head_dim) return "columns of the weight";
  return like_first(o);
}

Problem rope_table(const Operands& o) {
  const int angles = o.node.attributes.rope_table().inv_freq_size();
  return o.out_cols() == 2 * angles ? nullptr : "columns and frequencies";
}

Problem rope(const Operands& o) {
  const program::RopeAttrs& rope = o.node.attributes.rope();
  if (rope.head_dim() < 1 || o.in_cols(0) % rope.head_dim() != 0) return "whole heads";
  if (rope.rotary_dim() > rope.head_dim()) return "rotary_dim within a head";
  if (o.in_cols(1) != rope.rotary_dim()) return "columns of the table";
  return o.in_cols(0) == o.out_cols() ? nullptr : "columns of input and output";
}

Problem attention(const Operands& o) {
  const program::AttentionAttrs& attention = o.node.attributes.attention();
  const int64_t q_cols = attention.heads() * attention.head_dim();
  const int64_t kv_cols = attention.kv_heads() * attention.head_dim();
  if (o.in_cols(0) != q_cols || o.out_cols() != q_cols) return "columns of query heads";
  if (o.in_cols(1) != kv_cols || o.in_cols(2) != kv_cols) return "columns of KV heads";
  if (attention.kv_head_of_size() != attention.heads()) return "kv_head_of a query head";
  for (int32_t head : attention.kv_head_of()) {
    if (head < 0 || head >= attention.kv_heads()) return "kv_head_of among the KV heads";
  }
  return nullptr;
}

Problem cast(const Operands& o) {
  if (o.in(0).dtype != DType::kF32 || o.out().dtype != DType::kBF16) return "float32 to bfloat16";
  return o.in_cols(0) == o.out_cols() ? nullptr : "columns of input and output";
}

Problem top_candidates(const Operands& o) {
  return o.in(0).rows == program::OUTPUTS ? nullptr : "logits of the rows that are wanted";
}

Problem all_gather(const Operands& o) {
  const auto& boundaries = o.node.attributes.gather().boundaries();
  if (boundaries.size() < 3) return "boundaries of ranks";
  if (o.in(0).dtype != o.out().dtype) return "types of input and output";
  return boundaries[boundaries.size() - 1] == o.out_cols() ? nullptr : "boundaries of all columns";
}

Problem columns(const Operands& o) {
  const program::ColumnsAttrs& view = o.node.attributes.columns();
  if (view.begin() < 0 || view.begin() > view.end() || view.end() > o.in_cols(0)) {
    return "columns inside the input";
  }
  if (o.in(0).dtype != o.out().dtype) return "types of input and output";
  return view.end() - view.begin() == o.out_cols() ? nullptr : "columns of the view";
}

// In the order of base/op.h.
constexpr std::array<Problem (*)(const Operands&), kOpCount> kChecks = {
    nullptr,    embed,          linear,     rms_norm,   head_norm,  rope_table, rope,
    attention,  like_first,     like_first, like_first, like_first, add_norm,   cast,
    like_first, top_candidates, like_first, all_gather, columns};

Problem check_operands(const Graph& graph, const Node& node, std::vector<bool>& made) {
  const OperatorTraits& traits = operator_traits(node.op);
  if (node.op == Op::kNone) return "no operator";
  const int parameters = static_cast<int>(node.parameters.size());
  if (static_cast<int>(node.inputs.size()) != traits.inputs) return "number of inputs";
  if (static_cast<int>(node.outputs.size()) != traits.outputs) return "number of outputs";
  if (parameters < traits.parameters || parameters > traits.parameters_max) {
    return "number of parameters";
  }
  for (int input : node.inputs) {
    if (input < 0 || input >= static_cast<int>(made.size()) || !made[input]) {
      return "an input that is made before";
    }
  }
  for (int id : node.parameters) {
    if (id < 0 || id >= static_cast<int>(graph.parameters().size())) return "a parameter";
  }
  for (int output : node.outputs) {
    if (output < 0 || output >= static_cast<int>(made.size()) || made[output]) {
      return "an output that is made once";
    }
    made[output] = true;
  }
  return nullptr;
}

Problem check_rows(const Operands& o) {
  for (size_t i = 0; i < o.node.inputs.size(); ++i) {
    const program::Rows wanted = o.node.op == Op::kSelectRows      ? program::TOKENS
                                 : o.node.op == Op::kTopCandidates ? program::OUTPUTS
                                                                   : o.out().rows;
    if (o.in(i).rows != wanted) return "rows of inputs and outputs";
  }
  return nullptr;
}

Problem check_parameter(const Parameter& parameter) {
  const bool vector = parameter.role == program::BIAS || parameter.role == program::NORM;
  if (parameter.role == program::NO_ROLE) return "a role";
  if (vector && parameter.rows.columns() != 1) return "one row";
  int64_t filled = 0;
  for (const program::Piece& piece : parameter.pieces) {
    int64_t rows = piece.row_end() - piece.row_begin();
    int64_t cols = piece.col_end() - piece.col_begin();
    if (rows < 0 || cols < 0 || piece.row_begin() < 0 || piece.col_begin() < 0) return "a piece";
    if (piece.transpose()) std::swap(rows, cols);
    filled += vector ? cols : rows;
    if (!vector && cols != parameter.cols.columns()) return "columns of a piece";
  }
  const int64_t wanted = vector ? parameter.cols.columns() : parameter.rows.columns();
  return filled == wanted ? nullptr : "pieces that add up";
}

}  // namespace

absl::Status check_graph(const Graph& graph) {
  std::vector<bool> made(graph.values().size());
  for (const Node& node : graph.nodes()) {
    Problem problem = check_operands(graph, node, made);
    if (problem == nullptr) problem = check_rows({graph, node});
    if (problem == nullptr) problem = kChecks[static_cast<size_t>(node.op)]({graph, node});
    if (problem != nullptr) {
      return absl::InternalError(fmt::format("{}: wanted {}", node_text(graph, node), problem));
    }
  }
  for (const Parameter& parameter : graph.parameters()) {
    if (const Problem problem = check_parameter(parameter); problem != nullptr) {
      return absl::InternalError(fmt::format("{}: wanted {}", parameter.name, problem));
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep
