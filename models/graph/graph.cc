// SPDX-License-Identifier: Apache-2.0
// The builders: each appends one node, its output and its parameters.
#include "models/graph/graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "models/graph/head_pieces.h"
#include "proto/attributes.h"

namespace lockstep {
namespace {

// Reshapes the source [all_rows, cols] to [matrices, rows per matrix, cols].
void stack_source(program::Piece& piece, const FusedPart& part) {
  LOCKSTEP_CHECK(piece.source_shape_size() == 2 && part.all_rows % part.matrices == 0);
  const int64_t cols = piece.source_shape(1);
  piece.set_source_shape(0, part.matrices);
  piece.set_source_shape(1, part.all_rows / part.matrices);
  piece.add_source_shape(cols);
}

// Selects `rows`, which the source, or one of its matrices, stores as columns.
void transpose(program::Piece& piece, FusedPart::RowRange rows, const FusedPart& part) {
  const int64_t cols = piece.source_shape(1);
  piece.clear_source_shape();
  if (part.matrices > 0) piece.add_source_shape(part.matrices);
  piece.add_source_shape(cols);
  piece.add_source_shape(part.all_rows);
  piece.set_transpose(true);
  piece.set_row_begin(part.matrix * cols);
  piece.set_row_end((part.matrix + 1) * cols);
  piece.set_col_begin(rows.begin);
  piece.set_col_end(rows.end);
}

// Selects rows (of a bias: columns) of a larger tensor as pieces of a parameter.
std::vector<program::Piece> cut_out(const program::Piece& whole, const FusedPart& part) {
  const bool vector = whole.source_shape_size() == 1;
  std::vector<program::Piece> pieces;
  int64_t filled = 0;
  for (const FusedPart::RowRange& range : part.rows) {
    LOCKSTEP_CHECK(0 <= range.begin && range.begin < range.end && range.end <= part.all_rows);
    program::Piece& piece = pieces.emplace_back(whole);
    filled += range.end - range.begin;
    if (part.transposed && !vector) {
      transpose(piece, range, part);
      continue;
    }
    piece.set_source_shape(0, part.all_rows);
    if (part.matrices > 0) stack_source(piece, part);
    vector ? piece.set_col_begin(range.begin) : piece.set_row_begin(range.begin);
    vector ? piece.set_col_end(range.end) : piece.set_row_end(range.end);
  }
  LOCKSTEP_CHECK(filled == (vector ? whole.col_end() : whole.row_end()));
  return pieces;
}

template <typename T>
ArrayView<T> view_of(const std::vector<T>& list) {
  return {list.data(), std::ssize(list)};
}

// Makes names of values unique: the second sum of a layer is "model.layers.0.add_2".
std::string own_name(const Graph& graph, const std::string& name) {
  std::string own = name;
  const auto taken = [&own](const ValueInfo& other) { return other.name == own; };
  for (int n = 2; std::ranges::any_of(graph.values(), taken); ++n) {
    own = name + "_" + std::to_string(n);
  }
  return own;
}

}  // namespace

const char* axis_name(Axis axis) {
  switch (axis) {
    case Axis::kNone:
      return "none";
    case Axis::kHidden:
      return "hidden";
    case Axis::kHeads:
      return "heads";
    case Axis::kKvHeads:
      return "kv_heads";
    case Axis::kFfn:
      return "ffn";
    case Axis::kLatent:
      return "latent";
    case Axis::kVocab:
      return "vocab";
  }
  return "?";
}

Value Graph::embed(const std::string& name, AxisSize vocab, AxisSize hidden) {
  Node node{.op = Op::kEmbed};
  node.parameters = {add_weight(scoped(name), program::EMBEDDING, vocab, hidden)};
  node.attributes.mutable_embed()->set_vocab_begin(0);
  return append_one(std::move(node), {.name = scoped(name), .axis = hidden});
}

Value Graph::embed_beside(const std::string& name, int64_t rows, AxisSize vocab, AxisSize width,
                          int64_t absent_id) {
  const Value value = embed(name, vocab, width);
  Parameter& table = parameters_[nodes_[info(value).node].parameters.front()];
  table.pieces = cut_out(table.pieces.front(), {.all_rows = rows, .rows = {{0, vocab.count}}});
  program::EmbedAttrs& attributes = *nodes_[info(value).node].attributes.mutable_embed();
  attributes.set_beside(true);
  attributes.set_absent_id(absent_id);
  return value;
}

Value Graph::embed_positions(const std::string& name, int64_t rows, int64_t offset,
                             AxisSize hidden) {
  Node node{.op = Op::kEmbed};
  node.parameters = {add_weight(scoped(name), program::POSITIONS, {Axis::kNone, rows, 1}, hidden)};
  node.attributes = to_message(EmbedAttrs{.by_position = true, .offset = offset});
  return append_one(std::move(node), {.name = scoped(name), .axis = hidden});
}

Value Graph::linear(Value x, const std::string& name, AxisSize out, bool bias) {
  return project(x, name, out, bias, program::LINEAR_WEIGHT);
}

Value Graph::linear_part(Value x, const std::string& name, const FusedPart& part, AxisSize out,
                         bool bias) {
  const Value value = linear(x, name, out, bias);
  if (!part.name.empty()) values_[value.id].name += "." + part.name;
  for (const int id : nodes_[info(value).node].parameters) {
    Parameter& parameter = parameters_[id];
    if (!part.name.empty()) parameter.name += " (" + part.name + ")";
    program::Piece& whole = parameter.pieces.front();
    if (part.bare_name) whole.set_source(scoped(name));
    parameter.pieces = cut_out(whole, part);
  }
  return value;
}

Value Graph::head(Value x, const std::string& name, AxisSize vocab, bool bias, bool unit_rows) {
  const Value logits = project(x, name, vocab, bias, program::HEAD_WEIGHT);
  const int weight = nodes_[info(logits).node].parameters.front();
  if (unit_rows) parameters_[weight].pieces.front().set_unit_rows(true);
  return logits;
}

Value Graph::rms_norm(Value x, const std::string& name, float eps, float plus) {
  Node node{.op = Op::kRmsNorm, .inputs = {x.id}};
  node.parameters = {add_vector(scoped(name) + ".weight", program::NORM, info(x).axis, plus)};
  node.attributes.mutable_norm()->set_eps(eps);
  return append_one(std::move(node),
                    {.name = scoped(name), .rows = info(x).rows, .axis = info(x).axis});
}

Value Graph::layer_norm(Value x, const std::string& name, float eps, bool bias, float plus) {
  Node node{.op = Op::kLayerNorm, .inputs = {x.id}};
  node.parameters = {add_vector(scoped(name) + ".weight", program::NORM, info(x).axis, plus)};
  if (bias) {
    node.parameters.push_back(add_vector(scoped(name) + ".bias", program::BIAS, info(x).axis));
  }
  node.attributes.mutable_norm()->set_eps(eps);
  return append_one(std::move(node),
                    {.name = scoped(name), .rows = info(x).rows, .axis = info(x).axis});
}

Value Graph::head_norm(Value x, const std::string& name, const HeadNorm& norm) {
  Node node{.op = Op::kHeadNorm, .inputs = {x.id}};
  const AxisSize of_vector = norm.by_column ? info(x).axis : AxisSize{Axis::kNone, norm.head_dim};
  const auto add = [&](const std::string& vector, program::Role role, float plus) {
    node.parameters.push_back(norm.by_head
                                  ? add_parameter(vector_by_head(vector, role, info(x).axis, plus))
                                  : add_vector(vector, role, of_vector, plus));
  };
  if (!name.empty()) add(scoped(name) + ".weight", program::NORM, norm.plus);
  if (norm.bias) add(scoped(name) + ".bias", program::BIAS, 0);
  node.attributes =
      to_message(NormAttrs{.eps = norm.eps, .head_dim = norm.head_dim, .centred = norm.centred});
  return append_one(std::move(node), {.name = name.empty() ? info(x).name + ".norm" : scoped(name),
                                      .rows = info(x).rows,
                                      .axis = info(x).axis});
}

Value Graph::rope_table(const Rope& rope) {
  const std::string key = rope.table.SerializeAsString();
  for (const auto& [known, value] : rope_tables_) {
    if (known == key) return {value};
  }
  Node node{.op = Op::kRopeTable};
  *node.attributes.mutable_rope_table() = rope.table;
  const AxisSize angles = {.axis = Axis::kNone, .count = rope.rotary_dim, .unit = 1};
  const Value table = append_one(std::move(node), {.name = "rope_table", .axis = angles});
  rope_tables_.emplace_back(key, table.id);
  return table;
}

Value Graph::rope(Value x, const Rope& rope) {
  const int64_t sets = rope.table.lengths_size() + 1;
  LOCKSTEP_CHECK(rope.table.inv_freq_size() * 2 == sets * rope.rotary_dim);
  Node node{.op = Op::kRope, .inputs = {x.id, rope_table(rope).id}};
  node.attributes = to_message(RopeAttrs{.head_dim = rope.head_dim,
                                         .rotary_dim = rope.rotary_dim,
                                         .offset = rope.offset,
                                         .interleaved = rope.interleaved});
  return append_one(std::move(node), {.name = info(x).name + ".rope", .axis = info(x).axis});
}

Value Graph::position_scale(Value x, const PositionScales& by_position) {
  return like(Op::kPositionScale, {x},
              PositionScaleAttrs{.scales = view_of(by_position.scales),
                                 .length = by_position.length,
                                 .log_factor = by_position.log_factor,
                                 .offset = by_position.offset});
}

Value Graph::attention(Value q, Value k, Value v, AttentionAttrs attrs, const std::string& sinks) {
  Node node{.op = Op::kAttention, .inputs = {q.id, k.id, v.id}};
  LOCKSTEP_CHECK(!attrs.values_in_keys || k.id == v.id);
  const AxisSize axis = {Axis::kHeads, attrs.heads,
                         attrs.v_dim == 0 ? attrs.head_dim : attrs.v_dim};
  if (attrs.v_dim == attrs.head_dim) attrs.v_dim = 0;
  const std::vector<int32_t> kv_head_of = neighbours_share(attrs.heads, attrs.kv_heads);
  attrs.kv_head_of = view_of(kv_head_of);
  node.attributes = to_message(attrs);
  if (!sinks.empty()) {
    node.parameters = {add_vector(scoped(sinks), program::BIAS, {Axis::kHeads, attrs.heads, 1})};
  }
  return append_one(std::move(node), {.name = scoped("attention"), .axis = axis});
}

Value Graph::columns(Value x, int64_t begin, int64_t end) {
  Node node{.op = Op::kColumns, .inputs = {x.id}};
  node.attributes = to_message(ColumnsAttrs{.begin = begin, .end = end});
  return append_one(std::move(node), {.name = info(x).name + ".columns",
                                      .rows = info(x).rows,
                                      .axis = {Axis::kNone, end - begin, 1}});
}

Value Graph::select_rows(Value x) {
  return append_one({.op = Op::kSelectRows, .inputs = {x.id}},
                    {.name = scoped("select_rows"), .rows = kOutputRows, .axis = info(x).axis});
}

void Graph::top_candidates(Value logits) {
  Node node{.op = Op::kTopCandidates, .inputs = {logits.id}};
  node.attributes.mutable_top_candidates()->set_vocab_begin(0);
  append(std::move(node), {});
}

void Graph::rename(std::string_view from, std::string_view to) {
  for (Parameter& parameter : parameters_) {
    for (program::Piece& piece : parameter.pieces) {
      if (piece.source().starts_with(from)) piece.mutable_source()->replace(0, from.size(), to);
    }
  }
}

std::vector<int32_t> neighbours_share(int64_t heads, int64_t kv_heads) {
  LOCKSTEP_CHECK(kv_heads > 0 && heads % kv_heads == 0);
  std::vector<int32_t> kv_head_of;
  for (int64_t head = 0; head < heads; ++head) {
    kv_head_of.push_back(static_cast<int32_t>(head / (heads / kv_heads)));
  }
  return kv_head_of;
}

Value Graph::like(Op op, std::initializer_list<Value> inputs, const OperatorAttrs& attrs,
                  std::initializer_list<std::string> vectors) {
  Node node{.op = op, .attributes = to_message(attrs)};
  for (const Value input : inputs) node.inputs.push_back(input.id);
  const ValueInfo first = info(*inputs.begin());
  for (const std::string& vector : vectors) {
    node.parameters.push_back(add_vector(scoped(vector), program::NORM, first.axis));
  }
  return append_one(
      std::move(node),
      {.name = scoped(std::string(op_name(op))), .rows = first.rows, .axis = first.axis});
}

int Graph::add_parameter(Parameter parameter) {
  parameters_.push_back(std::move(parameter));
  return static_cast<int>(parameters_.size()) - 1;
}

std::vector<Value> Graph::append(Node node, std::vector<ValueInfo> outputs) {
  std::vector<Value> values;
  node.outputs.clear();
  for (ValueInfo& output : outputs) {
    output.name = own_name(*this, output.name);
    output.node = static_cast<int>(nodes_.size());
    node.outputs.push_back(static_cast<int>(values_.size()));
    values.push_back({node.outputs.back()});
    values_.push_back(std::move(output));
  }
  nodes_.push_back(std::move(node));
  return values;
}

Value Graph::append_one(Node node, ValueInfo output) {
  return append(std::move(node), {std::move(output)}).front();
}

Value Graph::project(Value x, const std::string& name, AxisSize out, bool bias,
                     program::Role role) {
  Node node{.op = Op::kLinear, .inputs = {x.id}};
  node.parameters = {add_weight(scoped(name), role, out, info(x).axis)};
  if (bias) node.parameters.push_back(add_vector(scoped(name) + ".bias", program::BIAS, out));
  return append_one(std::move(node), {.name = scoped(name), .rows = info(x).rows, .axis = out});
}

int Graph::add_weight(const std::string& name, program::Role role, AxisSize rows, AxisSize cols) {
  Parameter parameter{.name = name + ".weight", .role = role, .rows = rows, .cols = cols};
  program::Piece piece;
  piece.set_source(parameter.name);
  piece.add_source_shape(rows.columns());
  piece.add_source_shape(cols.columns());
  piece.set_row_end(rows.columns());
  piece.set_col_end(cols.columns());
  parameter.pieces = {std::move(piece)};
  if (role == program::HEAD_WEIGHT) {
    for (const Parameter& other : parameters_) {  // A tied head and the embedding share a source.
      if (other.name == parameter.name) parameter.name = "(tied) " + parameter.name;
    }
  }
  return add_parameter(std::move(parameter));
}

int Graph::add_vector(const std::string& name, program::Role role, AxisSize cols, float plus) {
  Parameter parameter{.name = name, .role = role, .rows = kOneRow, .cols = cols};
  program::Piece piece;
  piece.set_source(name);
  piece.add_source_shape(cols.columns());
  piece.set_plus(plus);
  piece.set_row_end(1);
  piece.set_col_end(cols.columns());
  parameter.pieces = {std::move(piece)};
  return add_parameter(std::move(parameter));
}

std::string Graph::scoped(const std::string& name) const {
  std::string full;
  for (const std::string& scope : scopes_) full += scope + ".";
  return full + name;
}

Scope::Scope(Graph& graph, std::string name) : graph_(graph) {
  graph_.scopes_.push_back(std::move(name));
}

Scope::~Scope() { graph_.scopes_.pop_back(); }

}  // namespace lockstep
