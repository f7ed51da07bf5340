// SPDX-License-Identifier: Apache-2.0
// A model as an append-only list of operators in single-assignment form, without workers, devices,
// caches or batches. Models build it; passes read one and write another; sharding splits it;
// lowering turns it into a Program. Not thread-safe during building.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers/dtype.h"
#include "models/graph/axis.h"
#include "models/graph/node.h"
#include "models/graph/parameter.h"
#include "models/graph/scope.h"
#include "models/graph/specs.h"
#include "operators/schema/schema.h"
#include "proto/program.pb.h"
#include "proto/row_domains.h"

namespace lockstep {

class Graph {
 public:
  std::string model;                                                    // Name for messages.
  std::vector<program::RowDomain> row_domains = default_row_domains();  // See Program.
  program::SequenceRules sequence_rules;                                // See Program.

  // --- Builders. Names are relative to the open scopes: "mlp.up_proj" is
  // "model.layers.3.mlp.up_proj.weight" (and ".bias") in the checkpoint.
  Value embed(const std::string& name, AxisSize vocab, AxisSize hidden);
  // A second embedding, of any width; a token given as an embedding uses the row of absent_id. The
  // checkpoint's tensor has `rows` rows, the vocabulary first.
  Value embed_beside(const std::string& name, int64_t rows, AxisSize vocab, AxisSize width,
                     int64_t absent_id);
  // The row of position + offset in a table of `rows`.
  Value embed_positions(const std::string& name, int64_t rows, int64_t offset, AxisSize hidden);
  Value linear(Value x, const std::string& name, AxisSize out, bool bias = false);
  // A linear whose weight is these rows of the matrix `name`: linear_part(x, "W_pack", k, out).
  Value linear_part(Value x, const std::string& name, const FusedPart& part, AxisSize out,
                    bool bias = false);
  // The linear that computes logits, tied or not; unit_rows scales its rows to length 1.
  Value head(Value x, const std::string& name, AxisSize vocab, bool bias = false,
             bool unit_rows = false);
  // The linear that computes the experts' scores, in float32.
  Value router(Value x, const std::string& name, int64_t experts, bool bias = false);
  // `bias`: a vector added to scores only for the choice; "": none. In `attrs`, 0 for groups or
  // scale means 1.
  Routes route(Value scores, RouteAttrs attrs, const std::string& bias = "");
  // x: the tokens' rows, or rows of routes. The result has one row per route.
  Value expert_linear(Value x, const Routes& routes, const Experts& experts, AxisSize out,
                      bool bias = false);
  Value expert_scale(Value x, const Routes& routes, const std::string& name, int64_t experts);
  Value combine(Value x, const Routes& routes);
  // plus: added to the stored weight; 1 if the norm multiplies by 1 + w and files store w.
  Value rms_norm(Value x, const std::string& name, float eps, float plus = 0);
  Value layer_norm(Value x, const std::string& name, float eps, bool bias = true, float plus = 0);
  // If `name` is "", the norm has no weight.
  Value head_norm(Value x, const std::string& name, const HeadNorm& norm);
  Value rope(Value x, const Rope& rope);  // The table is made once for equal attributes.
  Value position_scale(Value x, const PositionScales& by_position);
  // `sinks`: the tensor [heads] of scores without values; "": none. Fills attrs.kv_head_of.
  Value attention(Value q, Value k, Value v, AttentionAttrs attrs, const std::string& sinks = "");
  // Sums the current row and the rows before it, column by column (graph_recurrent.cc).
  Value conv(Value x, const std::string& name, const ConvSpec& spec);
  // q and k have spec.key_heads heads; v has spec.heads, and decay and rate one column for each of
  // these. The builder fills spec.key_head_of: a key head serves neighbouring value heads.
  Value delta_rule(Value q, Value k, Value v, Value decay, Value rate, const RecurrenceAttrs& spec);
  // Multiplies the first columns of each of spec.heads in x by the head's own part of the matrix
  // `name` (graph_heads.cc). The result has spec.out_dim columns per head.
  Value head_linear(Value x, const std::string& name, const HeadLinearSpec& spec);
  Value join_heads(Value x, Value y, AxisSize out);  // Each head's columns of x, then those of y.
  Value decay(Value x, const std::string& name);     // e^(-e^w * x), w the vector `name`.
  // q and k have spec.key_heads heads, the others spec.heads; decay has one column per head, or one
  // per column of the heads. Without `change`, the state S becomes decay * S + k * v^T.
  Value recurrence(Value q, Value k, Value v, Value decay, const std::optional<LowRank>& change,
                   const RecurrenceAttrs& spec);
  // The sequence's previous row.
  Value shift(Value x) { return like(Op::kShift, {x}, BlockAttrs{}); }
  Value wkv(Value k, Value v, const std::string& decay, const std::string& first) {
    return like(Op::kWkv, {k, v}, BlockAttrs{}, {decay, first});
  }
  // The vector `name` for every row. The tensor has this shape; its elements in order are the row.
  Value broadcast(const std::string& name, AxisSize axis, const std::vector<int64_t>& shape);
  // For each head: the sum of x * y * weight over its columns, times its columns of v.
  Value head_dot(Value x, Value y, Value weight, Value v);
  Value expand_heads(Value x, int64_t dim);  // Repeats each head's one column `dim` times.
  // Adds bias `name` to x, the result of a linear without a bias.
  Value biased(Value x, const std::string& name, const std::vector<int64_t>& shape = {});
  Value map(Value x, Function function, float factor = 0) {
    return like(Op::kMap, {x}, MapAttrs{function, factor});
  }
  Value mul(Value x, Value y) { return like(Op::kMul, {x, y}); }
  Value add(Value x, Value y) { return like(Op::kAdd, {x, y}); }
  Value lerp(Value x, Value y, Value weight) { return like(Op::kLerp, {x, y, weight}); }
  Value columns(Value x, int64_t begin, int64_t end);  // The result's axis is never split.
  Value select_rows(Value x);                          // The rows whose logits are needed.
  void top_candidates(Value logits);

  // --- For passes: append anything, read everything.
  void rename(std::string_view from, std::string_view to);  // Prefixes of sources' names.
  int add_parameter(Parameter parameter);
  std::vector<Parameter>& mutable_parameters() { return parameters_; }  // To change sources.
  // Appends a node and its outputs, and sets ValueInfo::node of these. Returns their values.
  std::vector<Value> append(Node node, std::vector<ValueInfo> outputs);
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<ValueInfo>& values() const { return values_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const ValueInfo& info(Value value) const { return values_[value.id]; }

 private:
  friend class Scope;
  std::string scoped(const std::string& name) const;
  int add_weight(const std::string& name, program::Role role, AxisSize rows, AxisSize cols);
  int add_vector(const std::string& name, program::Role role, AxisSize cols, float plus = 0);
  // Adds the whole tensor of this shape as a parameter of one row.
  int add_flat(const std::string& name, program::Role role, AxisSize cols,
               const std::vector<int64_t>& shape);
  Value append_one(Node node, ValueInfo output);
  // Appends an operator. Its output has the operator's name, and the rows and columns of the first
  // input. Its weights are vectors over these columns.
  Value like(Op op, std::initializer_list<Value> inputs, const OperatorAttrs& attrs = {},
             std::initializer_list<std::string> vectors = {});
  Value project(Value x, const std::string& name, AxisSize out, bool bias, program::Role role);
  Value rope_table(const Rope& rope);
  int routes_of(int64_t chosen);  // The row domain of routes.
  std::vector<std::string> scopes_;
  std::vector<Node> nodes_;
  std::vector<ValueInfo> values_;
  std::vector<Parameter> parameters_;
  std::vector<std::pair<std::string, int>> rope_tables_;  // Serialized attributes -> value.
};

// The KV head of each query head if consecutive query heads share one.
std::vector<int32_t> neighbours_share(int64_t heads, int64_t kv_heads);

}  // namespace lockstep
