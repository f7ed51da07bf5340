// SPDX-License-Identifier: Apache-2.0
// Walks the model once with each value's layout and its counterpart on this rank.
#include "sharding/split.h"

#include <utility>
#include <vector>

#include "base/status.h"
#include "sharding/cut.h"
#include "sharding/layout.h"

namespace lockstep {
namespace {

class Splitter {
 public:
  Splitter(const Graph& model, const Plan& plan, int rank)
      : model_(model), plan_(plan), rank_(rank), states_(model.values().size()) {
    graph_.model = model.model;
    graph_.row_domains = model.row_domains;
  }

  absl::Status add(const Node& node);
  Graph take() && { return std::move(graph_); }

 private:
  struct State {
    Layout layout;
    int local = -1;  // In graph_, in this layout.
    int whole = -1;  // Made whole, once somebody needed it.
  };

  absl::StatusOr<int> make_whole(int value);
  ValueInfo local_info(const ValueInfo& model, Layout layout) const;
  Parameter cut_parameter(const Parameter& parameter, ParameterCut how) const;

  const Graph& model_;
  const Plan& plan_;
  const int rank_;
  std::vector<State> states_;  // By value of the model.
  Graph graph_;
};

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

absl::StatusOr<int> Splitter::make_whole(int value) {
  State& state = states_[value];
  if (state.layout == kWholeLayout) return state.local;
  if (state.whole >= 0) return state.whole;
  ValueInfo info = model_.values()[value];
  Node node{.inputs = {state.local}};
  if (state.layout.kind == LayoutKind::kPartial) {
    node.op = Op::kAllReduce;
    info.name += ".sum";
  } else if (state.layout.axis == Axis::kKvHeads) {
    return absl::InternalError(fmt::format(
        "{} is split over KV heads, which ranks share: it cannot be gathered", info.name));
  } else {
    node.op = Op::kAllGather;
    info.name += ".all";
    for (int64_t boundary : plan_.boundaries(info.axis)) {
      node.attributes.mutable_gather()->add_boundaries(boundary);
    }
  }
  const bool summed = node.op == Op::kAllReduce;
  state.whole = graph_.append(std::move(node), {std::move(info)}).front().id;
  // From here on a sum is the value itself; a split stays usable as it is.
  if (summed) state = {.layout = kWholeLayout, .local = state.whole, .whole = state.whole};
  return state.whole;
}

absl::Status Splitter::add(const Node& node) {
  std::vector<Layout> layouts;
  for (int value : node.inputs) layouts.push_back(states_[value].layout);
  ASSIGN_OR_RETURN(const Decision decision, decide(model_, node, layouts, plan_));

  Node local{.op = node.op, .attributes = local_attributes(model_, node, plan_, rank_)};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    int input = states_[node.inputs[i]].local;
    if (decision.inputs[i] != layouts[i]) {
      ASSIGN_OR_RETURN(input, make_whole(node.inputs[i]));
    }
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
    outputs.push_back(local_info(model_.values()[node.outputs[i]], decision.outputs[i]));
  }
  const std::vector<Value> values = graph_.append(std::move(local), std::move(outputs));
  for (size_t i = 0; i < values.size(); ++i) {
    states_[node.outputs[i]] = {.layout = decision.outputs[i], .local = values[i].id};
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Graph> split(const Graph& model, const Plan& plan, int rank) {
  Splitter splitter(model, plan, rank);
  for (const Node& node : model.nodes()) RETURN_IF_ERROR(splitter.add(node));
  return std::move(splitter).take();
}

}  // namespace lockstep
