// SPDX-License-Identifier: Apache-2.0
// The layout rules of operators that have their own.
#include "sharding/layout/layout.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

struct Context {
  const Graph& graph;
  const Node& node;
  std::span<const Layout> inputs;
  const Plan& plan;

  AxisSize output_axis() const { return graph.values()[node.outputs[0]].axis; }
};

Layout split_if_cut(const Plan& plan, Axis axis) {
  return plan.splits(axis) ? split_over(axis) : kWholeLayout;
}

// Inputs, outputs and parameters are all whole.
Decision all_whole(const Context& c) {
  return {.inputs = std::vector<Layout>(c.inputs.size(), kWholeLayout),
          .outputs = std::vector<Layout>(c.node.outputs.size(), kWholeLayout),
          .parameters = std::vector<ParameterCut>(c.node.parameters.size(), ParameterCut::kWhole)};
}

// A rank gives -0.0 for ids that it does not own: -0.0 changes no bit of a sum.
Decision embed(const Context& c) {
  const Parameter& weight = c.graph.parameters()[c.node.parameters[0]];
  if (!c.plan.splits(weight.rows.axis)) return all_whole(c);
  return {.inputs = {}, .outputs = {kPartialLayout}, .parameters = {ParameterCut::kRows}};
}

// If the input is whole, the weight is split like the output. If the input is split, reduce splits
// the contracted axis, and the output is partial; gather makes the input whole, so that one rank
// computes an element completely.
Decision linear(const Context& c) {
  const bool contracts =
      c.inputs[0].kind == LayoutKind::kSplit && c.plan.strategy == Strategy::kReduce;
  Decision decision;
  decision.inputs = {contracts ? c.inputs[0] : kWholeLayout};
  if (contracts) {
    decision.outputs = {kPartialLayout};
    decision.parameters = {ParameterCut::kCols, ParameterCut::kFirstRank};
  } else {
    const Layout out = split_if_cut(c.plan, c.output_axis().axis);
    const bool cut = out.kind == LayoutKind::kSplit;
    decision.outputs = {out};
    decision.parameters = {cut ? ParameterCut::kRows : ParameterCut::kWhole,
                           cut ? ParameterCut::kCols : ParameterCut::kWhole};
  }
  decision.parameters.resize(c.node.parameters.size());
  return decision;
}

// The rule of linear, within every expert; ids are whole.
Decision expert_linear(const Context& c) {
  Decision decision = linear(c);
  decision.inputs.push_back(kWholeLayout);
  return decision;
}

// Columns of x are independent, and the result is linear in x. So the result has the layout of x,
// split and partial included.
Decision combine(const Context& c) {
  return {.inputs = {c.inputs[0], kWholeLayout}, .outputs = {c.inputs[0]}, .parameters = {}};
}

// Columns are independent, in the stored state too. If all inputs are split in the same way, so is
// the result. Otherwise all are whole: a partial input is summed first.
Decision by_column(const Context& c) {
  const Layout first = c.inputs[0];
  const bool alike = std::all_of(c.inputs.begin(), c.inputs.end(),
                                 [first](const Layout& layout) { return layout == first; });
  if (!alike || first.kind != LayoutKind::kSplit) return all_whole(c);
  return {.inputs = std::vector<Layout>(c.inputs.size(), first),
          .outputs = {first},
          .parameters = std::vector<ParameterCut>(c.node.parameters.size(), ParameterCut::kCols)};
}

// The sum of two addends is an addend of the sum.
Decision add(const Context& c) {
  if (c.inputs[0] != kPartialLayout || c.inputs[1] != kPartialLayout) return by_column(c);
  return {
      .inputs = {kPartialLayout, kPartialLayout}, .outputs = {kPartialLayout}, .parameters = {}};
}

// By column, with one exception: scale leaves a partial input partial, because an addend times the
// factor is an addend of the result.
Decision map(const Context& c) {
  const bool linear = c.node.attributes.map().function() == program::SCALE;
  if (!linear || c.inputs[0] != kPartialLayout) return by_column(c);
  return {.inputs = {kPartialLayout}, .outputs = {kPartialLayout}, .parameters = {}};
}

// Rows are copied whole, so the result has the input's layout.
Decision select_rows(const Context& c) {
  return {.inputs = {c.inputs[0]}, .outputs = {c.inputs[0]}, .parameters = {}};
}

// Heads of the first input are independent: if it is whole, a rank computes only its own heads.
Decision by_head(const Context& c) {
  const Axis axis = c.graph.values()[c.node.inputs[0]].axis.axis;
  const bool of_heads = axis == Axis::kHeads || axis == Axis::kKvHeads;
  Decision decision = all_whole(c);
  if (c.inputs[0].kind == LayoutKind::kSplit) {
    decision.inputs[0] = decision.outputs[0] = c.inputs[0];
  } else if (c.inputs[0] == kWholeLayout && of_heads) {
    decision.inputs[0] = decision.outputs[0] = split_if_cut(c.plan, axis);
  }
  return decision;
}

// If each head has a weight, the weight is split with the heads; one weight for all heads is on
// every rank. A norm over several heads together needs a whole input.
Decision head_norm(const Context& c) {
  const AxisSize heads = c.output_axis();
  if (heads.unit > 1 && heads.unit < c.node.attributes.norm().head_dim()) return all_whole(c);
  Decision decision = by_head(c);
  if (decision.outputs[0] == kWholeLayout) return decision;
  for (size_t i = 0; i < c.node.parameters.size(); ++i) {
    const Axis axis = c.graph.parameters()[c.node.parameters[i]].cols.axis;
    if (axis == c.output_axis().axis) decision.parameters[i] = ParameterCut::kCols;
  }
  return decision;
}

// Heads stay on their ranks: q is split by heads, k and v by the KV heads that these heads use. If
// an input is whole, every rank reads its own part.
absl::StatusOr<Decision> attention(const Context& c) {
  const Layout heads = split_if_cut(c.plan, Axis::kHeads);
  const Layout kv_heads = split_if_cut(c.plan, Axis::kKvHeads);
  const auto fits = [&](size_t i, Axis axis, Layout wanted) {
    const bool of_axis = c.graph.values()[c.node.inputs[i]].axis.axis == axis;
    return c.inputs[i] == wanted || (c.inputs[i] == kWholeLayout && of_axis);
  };
  if (!fits(0, Axis::kHeads, heads) || !fits(1, Axis::kKvHeads, kv_heads) ||
      !fits(2, Axis::kKvHeads, kv_heads)) {
    return absl::InternalError("attention: q, k and v must be split as the plan splits heads");
  }
  const bool cut = heads.kind == LayoutKind::kSplit;  // The sinks are split with the heads.
  return Decision{.inputs = {heads, kv_heads, kv_heads},
                  .outputs = {heads},
                  .parameters = std::vector<ParameterCut>(
                      c.node.parameters.size(), cut ? ParameterCut::kCols : ParameterCut::kWhole)};
}

// Heads are independent and have their own matrices. If heads are split, a rank reads its part of a
// whole input; values without heads (the one key of latent attention) stay whole.
Decision each_head(const Context& c) {
  Decision decision = all_whole(c);
  const Layout heads = split_if_cut(c.plan, Axis::kHeads);
  if (c.output_axis().axis != Axis::kHeads || heads.kind != LayoutKind::kSplit) return decision;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    LOCKSTEP_CHECK(c.graph.values()[c.node.inputs[i]].axis.axis == Axis::kHeads);
    decision.inputs[i] = heads;
  }
  decision.outputs[0] = heads;
  for (ParameterCut& how : decision.parameters) how = ParameterCut::kCols;
  return decision;
}

// The vector is split as the plan splits its axis, like the values that it is combined with. The
// hidden axis is whole, like the results of a layer's norms.
Decision broadcast(const Context& c) {
  const Axis axis = c.output_axis().axis;
  const Layout out = axis == Axis::kHidden ? kWholeLayout : split_if_cut(c.plan, axis);
  const bool cut = out.kind == LayoutKind::kSplit;
  return {.inputs = {},
          .outputs = {out},
          .parameters = {cut ? ParameterCut::kCols : ParameterCut::kWhole}};
}

// Heads stay on their ranks: each input is split as the plan splits its axis. If an input is whole,
// every rank reads its own part.
absl::StatusOr<Decision> recurrence(const Context& c) {
  Decision decision = {
      .inputs = {}, .outputs = {split_if_cut(c.plan, Axis::kHeads)}, .parameters = {}};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Axis axis = c.graph.values()[c.node.inputs[i]].axis.axis;
    const Layout wanted = split_if_cut(c.plan, axis);
    const bool of_heads = axis == Axis::kHeads || (axis == Axis::kKvHeads && i < 2);
    if (!of_heads || (c.inputs[i] != wanted && c.inputs[i] != kWholeLayout)) {
      return absl::InternalError(
          fmt::format("{}: input {} must be split by heads", op_name(c.node.op), i));
    }
    decision.inputs.push_back(wanted);
  }
  return decision;
}

// Each rank gives candidates of its own ids: with whole logits, every rank would give all of them.
absl::StatusOr<Decision> top_candidates(const Context& c) {
  const Layout vocab = split_if_cut(c.plan, Axis::kVocab);
  if (c.inputs[0] != vocab) {
    return absl::InternalError("top_candidates: logits must be split as the plan splits vocab");
  }
  return Decision{.inputs = {vocab}, .outputs = {}, .parameters = {}};
}

// The ids of a rank. A rank without ids gets the empty range at the vocabulary's end. So the range
// of exactly one rank begins at 0, and it is not empty: this rank adds the embeddings that a step
// carries.
Range vocab_of(AxisSize vocab, const Plan& plan, int rank) {
  const Range range = plan.columns(vocab, rank);
  return range.size() == 0 ? Range{vocab.columns(), vocab.columns()} : range;
}

void local_embed(const Context& c, int rank, program::EmbedAttrs& local) {
  if (local.by_position()) return;
  const AxisSize vocab = c.graph.parameters()[c.node.parameters[0]].rows;
  local.set_vocab_begin(vocab_of(vocab, c.plan, rank).begin);
}

void local_top_candidates(const Context& c, int rank, program::TopCandidatesAttrs& local) {
  const AxisSize vocab = c.graph.values()[c.node.inputs[0]].axis;
  const int64_t begin = vocab_of(vocab, c.plan, rank).begin;
  const int64_t whole_blocks = (begin + kVocabBlock - 1) / kVocabBlock;  // Rounds up.
  local.set_vocab_begin(whole_blocks * kVocabBlock);
}

// Sets a rank's number of query heads, its number of KV heads, and each query head's slope and KV
// head. KV heads are counted from the rank's first one.
void local_attention(const Context& c, int rank, program::AttentionAttrs& local) {
  const program::AttentionAttrs& model = c.node.attributes.attention();
  const Range heads = c.plan.units({Axis::kHeads, model.heads(), 1}, rank);
  const Range kv_heads = c.plan.units({Axis::kKvHeads, model.kv_heads(), 1, model.heads()}, rank);
  local.set_heads(heads.size());
  local.set_kv_heads(kv_heads.size());
  local.clear_kv_head_of();
  local.clear_slopes();
  for (int64_t head = heads.begin; head < heads.end; ++head) {
    const int64_t kv_head = model.kv_head_of(static_cast<int>(head));
    LOCKSTEP_CHECK(kv_heads.begin <= kv_head && kv_head < kv_heads.end);
    local.add_kv_head_of(static_cast<int32_t>(kv_head - kv_heads.begin));
    if (model.slopes_size() > 0) local.add_slopes(model.slopes(static_cast<int>(head)));
  }
}

void local_recurrence(const Context& c, int rank, program::RecurrenceAttrs& local) {
  const program::RecurrenceAttrs& model = c.node.attributes.recurrence();
  const Range heads = c.plan.units({Axis::kHeads, model.heads(), 1}, rank);
  const Range key_heads = c.plan.units({Axis::kKvHeads, model.key_heads(), 1, model.heads()}, rank);
  local.set_heads(heads.size());
  local.set_key_heads(key_heads.size());
  local.clear_key_head_of();
  for (int64_t head = heads.begin; head < heads.end; ++head) {
    const int64_t key_head = model.key_head_of(static_cast<int>(head));
    LOCKSTEP_CHECK(key_heads.begin <= key_head && key_head < key_heads.end);
    local.add_key_head_of(static_cast<int32_t>(key_head - key_heads.begin));
  }
}

void local_heads(const Context& c, int rank, program::HeadsAttrs& local) {
  if (c.output_axis().axis != Axis::kHeads) return;
  const Range heads = c.plan.units({Axis::kHeads, c.node.attributes.heads().heads(), 1}, rank);
  local.set_heads(heads.size());
}

// Adapts a rule that cannot fail.
template <Decision (*rule)(const Context&)>
absl::StatusOr<Decision> plain(const Context& context) {
  return rule(context);
}

struct Rule {
  Op op = Op::kNone;
  // Null: an operator that only the compiler makes, never a model.
  absl::StatusOr<Decision> (*decide)(const Context& context) = nullptr;
};

// An operator without a row here is computed by column if its schema has kEach, else whole.
constexpr auto kRules = table_by_op<Rule>({
    {Op::kEmbed, plain<embed>},
    {Op::kLinear, plain<linear>},
    {Op::kHeadNorm, plain<head_norm>},
    {Op::kRope, plain<by_head>},
    {Op::kPositionScale, plain<by_head>},
    {Op::kAttention, attention},
    {Op::kMap, plain<map>},
    {Op::kAdd, plain<add>},
    {Op::kSelectRows, plain<select_rows>},
    {Op::kTopCandidates, top_candidates},
    {Op::kAllReduce},
    {Op::kAllGather},
    {Op::kExpertLinear, plain<expert_linear>},
    {Op::kCombine, plain<combine>},
    {Op::kConv, plain<by_column>},
    {Op::kDeltaRule, recurrence},
    {Op::kHeadLinear, plain<each_head>},
    {Op::kJoinHeads, plain<each_head>},
    {Op::kBroadcast, plain<broadcast>},
    {Op::kRecurrence, recurrence},
    {Op::kHeadDot, plain<each_head>},
    {Op::kExpandHeads, plain<each_head>},
    {Op::kRoundGroups},
    {Op::kRopeAttention},
    {Op::kGatedLinear},
});

absl::StatusOr<Decision> decide_by_rule(const Context& context) {
  const Op op = context.node.op;
  const Rule& rule = kRules[static_cast<size_t>(op)];
  if (rule.decide != nullptr) return rule.decide(context);
  if (rule.op == op) return absl::InternalError(fmt::format("no layout rule for {}", op_name(op)));
  return schema_of(op).columns == ColumnRule::kEach ? by_column(context) : all_whole(context);
}

}  // namespace

absl::StatusOr<Decision> decide(const Graph& graph, const Node& node,
                                std::span<const Layout> inputs, const Plan& plan) {
  ASSIGN_OR_RETURN(Decision decision, decide_by_rule({graph, node, inputs, plan}));
  LOCKSTEP_CHECK(decision.inputs.size() == node.inputs.size());
  LOCKSTEP_CHECK(decision.outputs.size() == node.outputs.size());
  LOCKSTEP_CHECK(decision.parameters.size() == node.parameters.size());
  return decision;
}

program::Attributes local_attributes(const Graph& graph, const Node& node, const Plan& plan,
                                     int rank) {
  program::Attributes attributes = node.attributes;
  if (plan.ranks == 1) return attributes;
  const Context context = {graph, node, {}, plan};
  if (attributes.has_embed()) local_embed(context, rank, *attributes.mutable_embed());
  if (attributes.has_top_candidates()) {
    local_top_candidates(context, rank, *attributes.mutable_top_candidates());
  }
  if (attributes.has_attention()) local_attention(context, rank, *attributes.mutable_attention());
  if (attributes.has_recurrence()) {
    local_recurrence(context, rank, *attributes.mutable_recurrence());
  }
  if (attributes.has_heads()) local_heads(context, rank, *attributes.mutable_heads());
  return attributes;
}

}  // namespace lockstep
