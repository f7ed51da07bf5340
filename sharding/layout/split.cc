// SPDX-License-Identifier: Apache-2.0
// Walks the model once. Tracks each value's layout, and the value on this rank that represents it.
#include "sharding/layout/split.h"

#include <utility>
#include <vector>

#include "base/status.h"
#include "sharding/layout/cut.h"
#include "sharding/layout/layout.h"

namespace lockstep {
namespace {

class Splitter {
 public:
  Splitter(const Graph& model, const Plan& plan, int rank, ValueParts* parts)
      : model_(model), plan_(plan), rank_(rank), parts_(parts), states_(model.values().size()) {
    graph_.model = model.model;
    graph_.row_domains = model.row_domains;
    graph_.sequence_rules = model.sequence_rules;
  }

  absl::Status add(const Node& node);
  Graph take() && { return std::move(graph_); }

 private:
  struct State {
    Layout layout;
    int local = -1;  // The value in graph_ with this layout.
    int whole = -1;  // The whole value in graph_; made on first use.
    int own = -1;    // This rank's columns of `whole`; made on first use.
  };

  absl::StatusOr<int> in_layout(int value, Layout wanted);
  int make_whole(int value);
  int cut_whole(int value);
  int view(int local, ValueInfo info, Range columns);
  ValueInfo local_info(const ValueInfo& model, Layout layout) const;
  Parameter cut_parameter(const Parameter& parameter, ParameterCut how) const;
  void note(const std::string& name, Layout layout, AxisSize axis, int64_t columns);

  const Graph& model_;
  const Plan& plan_;
  const int rank_;
  ValueParts* const parts_;    // Null: not requested.
  std::vector<State> states_;  // By value of the model.
  Graph graph_;
};

// Records that a value of the rank's graph has this many columns of a model's value over `axis`.
void Splitter::note(const std::string& name, Layout layout, AxisSize axis, int64_t columns) {
  if (parts_ == nullptr) return;
  const bool cut = layout.kind == LayoutKind::kSplit;
  const int64_t begin = cut ? plan_.columns(axis, rank_).begin : 0;
  (*parts_)[name] = {layout, {begin, begin + columns}, axis.columns()};
}

ValueInfo Splitter::local_info(const ValueInfo& model, Layout layout) const {
  ValueInfo info = model;
  if (layout.kind == LayoutKind::kSplit) info.axis.count = plan_.units(info.axis, rank_).size();
  return info;
}

Parameter Splitter::cut_parameter(const Parameter& parameter, ParameterCut how) const {
  switch (how) {
    case ParameterCut::kRows:
      return cut_rows(parameter, plan_.units(parameter.rows, rank_));
    case ParameterCut::kCols:
      return cut_cols(parameter, plan_.units(parameter.cols, rank_));
    case ParameterCut::kWhole:
    case ParameterCut::kFirstRank:
      break;
  }
  return parameter;
}

int Splitter::view(int local, ValueInfo info, Range columns) {
  info.axis.count = columns.size() / info.axis.unit;
  Node node{.op = Op::kColumns, .inputs = {local}};
  node.attributes.mutable_columns()->set_begin(columns.begin);
  node.attributes.mutable_columns()->set_end(columns.end);
  return graph_.append(std::move(node), {std::move(info)}).front().id;
}

// The gather must leave out copies of KV heads. So if any rank has copies, all ranks first make a
// view of the columns that they own.
int Splitter::make_whole(int value) {
  State& state = states_[value];
  if (state.layout == kWholeLayout) return state.local;
  if (state.whole >= 0) return state.whole;
  ValueInfo info = model_.values()[value];
  Node node{.inputs = {state.local}};
  if (state.layout.kind == LayoutKind::kPartial) {
    node.op = Op::kAllReduce;
    info.name += ".sum";
  } else {
    node.op = Op::kAllGather;
    for (int64_t boundary : plan_.boundaries(info.axis)) {
      node.attributes.mutable_gather()->add_boundaries(boundary);
    }
    if (plan_.has_copies(info.axis)) {
      ValueInfo part = info;
      part.name += ".owned";
      const int64_t end = plan_.owned(info.axis, rank_).size() * info.axis.unit;
      note(part.name, state.layout, info.axis, end);
      node.inputs = {view(state.local, std::move(part), {0, end})};
    }
    info.name += ".all";
  }
  const bool summed = node.op == Op::kAllReduce;
  note(info.name, kWholeLayout, info.axis, info.axis.columns());
  state.whole = graph_.append(std::move(node), {std::move(info)}).front().id;
  // From now on the sum replaces the partial value; a split value can still be used as it is.
  if (summed) state = {.layout = kWholeLayout, .local = state.whole, .whole = state.whole};
  return state.whole;
}

int Splitter::cut_whole(int value) {
  const int whole = make_whole(value);
  State& state = states_[value];
  if (state.own >= 0) return state.own;
  ValueInfo info = model_.values()[value];
  info.name += ".own";
  const Range columns = plan_.columns(info.axis, rank_);
  note(info.name, split_over(info.axis.axis), info.axis, columns.size());
  state.own = view(whole, std::move(info), columns);
  return state.own;
}

absl::StatusOr<int> Splitter::in_layout(int value, Layout wanted) {
  if (states_[value].layout == wanted) return states_[value].local;
  const ValueInfo& info = model_.values()[value];
  if (wanted == kWholeLayout) return make_whole(value);
  if (wanted == split_over(info.axis.axis)) return cut_whole(value);
  return absl::InternalError(
      fmt::format("{} cannot be split over {}", info.name, axis_name(wanted.axis)));
}

absl::Status Splitter::add(const Node& node) {
  std::vector<Layout> layouts;
  for (int value : node.inputs) layouts.push_back(states_[value].layout);
  ASSIGN_OR_RETURN(const Decision decision, decide(model_, node, layouts, plan_));

  Node local{.op = node.op, .attributes = local_attributes(model_, node, plan_, rank_)};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ASSIGN_OR_RETURN(const int input, in_layout(node.inputs[i], decision.inputs[i]));
    local.inputs.push_back(input);
  }
  for (size_t i = 0; i < node.parameters.size(); ++i) {
    if (decision.parameters[i] == ParameterCut::kFirstRank && rank_ != 0) continue;
    const Parameter& parameter = model_.parameters()[node.parameters[i]];
    local.parameters.push_back(
        graph_.add_parameter(cut_parameter(parameter, decision.parameters[i])));
  }
  std::vector<ValueInfo> outputs;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueInfo& whole = model_.values()[node.outputs[i]];
    outputs.push_back(local_info(whole, decision.outputs[i]));
    note(whole.name, decision.outputs[i], whole.axis, outputs.back().axis.columns());
  }
  const std::vector<Value> values = graph_.append(std::move(local), std::move(outputs));
  for (size_t i = 0; i < values.size(); ++i) {
    states_[node.outputs[i]] = {.layout = decision.outputs[i], .local = values[i].id};
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Graph> split(const Graph& model, const Plan& plan, int rank, ValueParts* parts) {
  Splitter splitter(model, plan, rank, parts);
  for (const Node& node : model.nodes()) RETURN_IF_ERROR(splitter.add(node));
  return std::move(splitter).take();
}

}  // namespace lockstep
