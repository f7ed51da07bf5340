// SPDX-License-Identifier: Apache-2.0
// A model as an append-only list of operators in single-assignment form. It knows no workers,
// devices, caches or batches. Models build it; passes read one and write another; sharding cuts it;
// lowering turns it into a Program. Not thread-safe while it is built.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers/dtype.h"
#include "models/axis.h"
#include "models/node.h"
#include "models/parameter.h"
#include "models/specs.h"
#include "operators/schema.h"
#include "proto/program.pb.h"
#include "proto/row_domains.h"

namespace lockstep {

class Graph {
 public:
  std::string model;                                                    // Name for messages.
  std::vector<program::RowDomain> row_domains = default_row_domains();  // As Program's.
  program::SequenceRules sequence_rules;                                // The same.

  // --- Builders. Names are relative to the open scopes: "mlp.up_proj" is
  // "model.layers.3.mlp.up_proj.weight" (and ".bias") in the checkpoint.
  Value embed(const std::string& name, AxisSize vocab, AxisSize hidden);
  // Beside the model's own, of any width; what came with the step as rows has that of absent_id.
  // The checkpoint's tensor has `rows`, of which the first are the vocabulary's.
  Value embed_beside(const std::string& name, int64_t rows, AxisSize vocab, AxisSize width,
                     int64_t absent_id);
  // The row of position + offset in a table of `rows`.
  Value embed_positions(const std::string& name, int64_t rows, int64_t offset, AxisSize hidden);
  Value linear(Value x, const std::string& name, AxisSize out, bool bias = false);
  // The linear whose weight is those rows of the matrix `name`: linear_part(x, "W_pack", k, out).
  Value linear_part(Value x, const std::string& name, const FusedPart& part, AxisSize out,
                    bool bias = false);
  // The linear that gives logits, tied or not; with unit_rows its rows are brought to length 1.
  Value head(Value x, const std::string& name, AxisSize vocab, bool bias = false,
             bool unit_rows = false);
  // The linear that gives scores of experts: in float32.
  Value router(Value x, const std::string& name, int64_t experts, bool bias = false);
  // `bias` is added to scores for the choice alone, "": none. Groups and scale of 0 read as 1.
  Routes route(Value scores, RouteAttrs attrs, const std::string& bias = "");
  // x: the tokens' rows, or rows of routes. The result has a row for each route.
  Value expert_linear(Value x, const Routes& routes, const Experts& experts, AxisSize out,
                      bool bias = false);
  Value expert_scale(Value x, const Routes& routes, const std::string& name, int64_t experts);
  Value combine(Value x, const Routes& routes);
  // plus: what the stored weight lacks, 1 where it is the w of 1 + w.
  Value rms_norm(Value x, const std::string& name, float eps, float plus = 0);
  Value layer_norm(Value x, const std::string& name, float eps, bool bias = true, float plus = 0);
  // Without a weight where `name` is "".
  Value head_norm(Value x, const std::string& name, const HeadNorm& norm);
  Value rope(Value x, const Rope& rope);  // The table is made once for equal attributes.
  Value position_scale(Value x, const PositionScales& by_position);
  // `sinks`: a vector of scores without values, "": none. The builder fills attrs.kv_head_of.
  Value attention(Value q, Value k, Value v, AttentionAttrs attrs, const std::string& sinks = "");
  // A sum over the rows before and the row itself, column by column (graph_recurrent.cc).
  Value conv(Value x, const std::string& name, const ConvSpec& spec);
  // q and k over spec.key_heads, v over spec.heads; decay and rate have a column for each of these.
  // The builder fills spec.key_head_of: a key head serves neighbouring value heads.
  Value delta_rule(Value q, Value k, Value v, Value decay, Value rate, const RecurrenceAttrs& spec);
  // Of each of spec.heads its first columns of x, times its own part of the matrix `name`
  // (graph_heads.cc). The result has spec.out_dim columns for each.
  Value head_linear(Value x, const std::string& name, const HeadLinearSpec& spec);
  Value join_heads(Value x, Value y, AxisSize out);  // Each head's columns of x, then those of y.
  Value decay(Value x, const std::string& name);     // e^(-e^w * x), w the vector `name`.
  // By spec.key_heads q and k, by spec.heads the others; decay by heads or by their columns.
  // Without a and b S only decays and grows.
  Value recurrence(Value q, Value k, Value v, Value decay, const std::optional<LowRank>& change,
                   const RecurrenceAttrs& spec);
  // The row before, of the sequence.
  Value shift(Value x) { return like(Op::kShift, {x}, BlockAttrs{}); }
  Value wkv(Value k, Value v, const std::string& decay, const std::string& first) {
    return like(Op::kWkv, {k, v}, BlockAttrs{}, {decay, first});
  }
  // The vector `name` for every row; it is stored in this shape, all of whose elements are a row.
  Value broadcast(const std::string& name, AxisSize axis, const std::vector<int64_t>& shape);
  // Of each head the sum of x * y * weight over its columns, times its columns of v.
  Value head_dot(Value x, Value y, Value weight, Value v);
  Value expand_heads(Value x, int64_t dim);  // The one column of each head, `dim` times.
  // The same value, of which the vector `name` is a bias: x is a linear that has none.
  Value biased(Value x, const std::string& name, const std::vector<int64_t>& shape = {});
  Value map(Value x, Function function, float factor = 0) {
    return like(Op::kMap, {x}, MapAttrs{function, factor});
  }
  Value mul(Value x, Value y) { return like(Op::kMul, {x, y}); }
  Value add(Value x, Value y) { return like(Op::kAdd, {x, y}); }
  Value lerp(Value x, Value y, Value weight) { return like(Op::kLerp, {x, y, weight}); }
  Value columns(Value x, int64_t begin, int64_t end);  // Of no axis that is cut.
  Value select_rows(Value x);                          // The rows whose logits are wanted.
  void top_candidates(Value logits);

  // --- For passes: append anything, read everything.
  void rename(std::string_view from, std::string_view to);  // What sources' names begin with.
  int add_parameter(Parameter parameter);
  std::vector<Parameter>& mutable_parameters() { return parameters_; }  // To read them elsewhere.
  // Appends a node; outputs take the given infos (node is filled in). Returns their values.
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
  // The tensor of this shape, all of it, as one row.
  int add_flat(const std::string& name, program::Role role, AxisSize cols,
               const std::vector<int64_t>& shape);
  Value append_one(Node node, ValueInfo output);
  // An operator named after itself, whose output is like its first input. Its weights are vectors
  // over the columns of that.
  Value like(Op op, std::initializer_list<Value> inputs, const OperatorAttrs& attrs = {},
             std::initializer_list<std::string> vectors = {});
  Value project(Value x, const std::string& name, AxisSize out, bool bias, program::Role role);
  Value rope_table(const Rope& rope);
  int routes_of(int64_t chosen);  // Their row domain.
  std::vector<std::string> scopes_;
  std::vector<Node> nodes_;
  std::vector<ValueInfo> values_;
  std::vector<Parameter> parameters_;
  std::vector<std::pair<std::string, int>> rope_tables_;  // Serialized attributes -> value.
};

// The KV head of each head, where neighbours share one.
std::vector<int32_t> neighbours_share(int64_t heads, int64_t kv_heads);

// Names are prefixed while it lives: Scope layer(g, "model.layers.3").
class Scope {
 public:
  Scope(Graph& graph, std::string name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Graph& graph_;
};

}  // namespace lockstep
