// SPDX-License-Identifier: Apache-2.0
// The rows. A new operator is one more, and what does not compile or fails a test after that names
// the rest of what it needs.
#include "operators/schema.h"

#include "operators/checks.h"

namespace lockstep {
namespace {

constexpr OperandSchema value(const char* name) { return {name, OperandKind::kValue}; }
constexpr OperandSchema optional_value(const char* name) {
  return {name, OperandKind::kValue, true};
}
constexpr OperandSchema ids(const char* name) { return {name, OperandKind::kIds}; }
constexpr OperandSchema embedding(const char* name) { return {name, OperandKind::kEmbedding}; }
constexpr OperandSchema matrix(const char* name) { return {name, OperandKind::kMatrix}; }
constexpr OperandSchema norm(const char* name) { return {name, OperandKind::kNorm}; }
constexpr OperandSchema optional_norm(const char* name) { return {name, OperandKind::kNorm, true}; }
constexpr OperandSchema optional_bias(const char* name) { return {name, OperandKind::kBias, true}; }

constexpr std::array<OperatorSchema, kOpCount> kSchemas = table_by_op<OperatorSchema>({
    {.op = Op::kEmbed,
     .formula = "out[row] = weight[token of row]; rows of the vocabulary held elsewhere: -0.0. Or "
                "weight[position of row + offset]. What came with the step has its own embedding, "
                "or (beside) that of absent_id",
     .attrs = AttrsKind::kEmbed,
     .inputs = {embedding("weight")},
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .check = check_embed,
     .flops_per_element = -1},
    {.op = Op::kLinear,
     .formula = "out = x * weight^T (+ bias)",
     .inputs = {value("x"), matrix("weight"), optional_bias("bias")},
     .outputs = {"out"},
     .input_types = InputTypes::kAlikeOrRounded,
     .check = check_linear,
     .flops_per_element = -1},
    {.op = Op::kRmsNorm,
     .formula = "out = x / sqrt(mean(x^2) + eps) * weight",
     .attrs = AttrsKind::kNorm,
     .inputs = {value("x"), norm("weight")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_norm,
     .flops_per_element = 4},
    {.op = Op::kLayerNorm,
     .formula = "out = (x - mean(x)) / sqrt(variance(x) + eps) * weight (+ bias)",
     .attrs = AttrsKind::kNorm,
     .inputs = {value("x"), norm("weight"), optional_bias("bias")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_norm,
     .flops_per_element = 7},
    {.op = Op::kHeadNorm,
     .formula = "rms_norm within each head, or layer_norm where centred; one weight (+ bias) of "
                "head_dim for all heads, one for each, or none",
     .attrs = AttrsKind::kNorm,
     .inputs = {value("x"), optional_norm("weight"), optional_bias("bias")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_head_norm,
     .flops_per_element = 4},
    {.op = Op::kRopeTable,
     .formula = "cos and sin of position * inv_freq, which may depend on the sequence's "
                "rope_length, times factor: [cos | sin], once per step; the position is the row's "
                "own, held behind the sequence's prefix, or counted from its end on",
     .attrs = AttrsKind::kRopeTable,
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .check = check_rope_table},
    {.op = Op::kRope,
     .formula = "every head's rotary_dim columns from offset on rotated by the table, in pairs",
     .attrs = AttrsKind::kRope,
     .inputs = {value("x"), value("table")},
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .columns = ColumnRule::kOutputsAlike,
     .in_place = true,
     .check = check_rope,
     .flops_per_element = 3},
    {.op = Op::kPositionScale,
     .formula = "out = x * scales[min((position + offset) / length, their count - 1)]; or x before "
                "position length, x * log(position + 1) * log_factor from it on",
     .attrs = AttrsKind::kPositionScale,
     .inputs = {value("x")},
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_position_scale,
     .flops_per_element = 1},
    {.op = Op::kAttention,
     .formula =
         "appends k and v to the layer's pages (read_only: to those of a layer before, which "
         "has done it); out = softmax(scale * q * keys^T, capped, + slope * distance) * values, "
         "causal but for the rows of a sequence's prefix, which see one another, within window "
         "and chunk; a head's sink is one more score, without a value; values_in_keys: values are "
         "the first v_dim columns of keys, and v is k",
     .attrs = AttrsKind::kAttention,
     .inputs = {value("q"), value("k"), value("v"), optional_bias("sinks")},
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .state = StateKind::kKvPages,
     .effect = true,
     .check = check_attention,
     .flops_per_element = -1},
    {.op = Op::kMap,
     .formula = "out = f(x), by element; f is silu, gelu, gelu_tanh, relu, relu_squared, sigmoid, "
                "tanh, scale (x * factor), cap (factor * tanh(x / factor)), quick_gelu, clamp, "
                "clamp_above, softplus (log(1 + e^x)) or exp",
     .attrs = AttrsKind::kMap,
     .inputs = {value("x")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_map,
     .flops_per_element = 16},
    {.op = Op::kMul,
     .formula = "out = x * y, by element",
     .inputs = {value("x"), value("y")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .flops_per_element = 1},
    {.op = Op::kAdd,
     .formula = "out = x + y",
     .inputs = {value("x"), value("y")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .flops_per_element = 1},
    {.op = Op::kGated,
     .formula = "out = f(gate) * up; f is a function of map",
     .attrs = AttrsKind::kMap,
     .inputs = {value("gate"), value("up")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_map,
     .flops_per_element = 16},
    {.op = Op::kAddNorm,
     .formula = "sum = x + y; out = rms_norm(sum)",
     .attrs = AttrsKind::kNorm,
     .inputs = {value("x"), value("y"), norm("weight")},
     .outputs = {"sum", "out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_norm,
     .flops_per_element = 5},
    {.op = Op::kCast,
     .formula = "out = x rounded to bfloat16, nearest even",
     .inputs = {value("x")},
     .outputs = {"out"},
     .output_types = OutputTypes::kBF16,
     .columns = ColumnRule::kAlike},
    {.op = Op::kRoundGroups,
     .formula = "out = x in groups of 32 columns, as codes -127 .. 127 and a scale: what a linear "
                "by quantized weights makes of its rows",
     .inputs = {value("x")},
     .outputs = {"out"},
     .output_types = OutputTypes::kRounded,
     .columns = ColumnRule::kAlike,
     .flops_per_element = 3},
    {.op = Op::kSelectRows,
     .formula = "the rows whose logits are wanted",
     .inputs = {value("x")},
     .outputs = {"out"},
     .rows = RowRule::kTokensToOutputs,
     .input_types = InputTypes::kAlike,
     .output_types = OutputTypes::kSame,
     .columns = ColumnRule::kAlike,
     .flops_per_element = -1},
    {.op = Op::kTopCandidates,
     .formula = "candidates of this rank's slice of the logits, for the sampler",
     .attrs = AttrsKind::kTopCandidates,
     .inputs = {value("logits")},
     .rows = RowRule::kOutputs,
     .effect = true,
     .check = check_top_candidates,
     .flops_per_element = 1},
    {.op = Op::kAllReduce,
     .formula = "out = the sum of x over ranks",
     .inputs = {value("x")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .run_by = RunBy::kCollective,
     .effect = true,
     .in_place = true},
    {.op = Op::kAllGather,
     .formula = "out = the columns of all ranks side by side",
     .attrs = AttrsKind::kGather,
     .inputs = {value("x")},
     .outputs = {"out"},
     .input_types = InputTypes::kAlikeOrRounded,
     .output_types = OutputTypes::kSame,
     .run_by = RunBy::kCollective,
     .effect = true,
     .check = check_all_gather},
    {.op = Op::kRoute,
     .formula = "for each row the best experts by score (+ bias), ties to the lower id, ascending, "
                "and their weights: softmax or sigmoid of the scores",
     .attrs = AttrsKind::kRoute,
     .inputs = {value("scores"), optional_bias("bias")},
     .outputs = {"ids", "weights"},
     .rows = RowRule::kOwn,
     .output_types = OutputTypes::kIdsFirst,
     .check = check_route,
     .flops_per_element = 16},
    {.op = Op::kExpertLinear,
     .formula = "out[route] = x[route, or its token] * weight[id of route]^T (+ bias[id of route])",
     .attrs = AttrsKind::kExpert,
     .inputs = {value("x"), ids("ids"), matrix("weight"), optional_bias("bias")},
     .outputs = {"out"},
     .rows = RowRule::kOwn,
     .input_types = InputTypes::kAlikeOrRounded,
     .check = check_expert_linear,
     .flops_per_element = -1},
    {.op = Op::kExpertScale,
     .formula = "out = x * weight[id of the row]; 0 for an id that is no expert's",
     .inputs = {value("x"), ids("ids"), norm("weight")},
     .outputs = {"out"},
     .columns = ColumnRule::kOutputsAlike,
     .in_place = true,
     .check = check_expert_scale,
     .flops_per_element = 1},
    {.op = Op::kCombine,
     .formula = "out[token] = sum over its routes, in order, of weights[route] * x[route]",
     .inputs = {value("x"), value("weights")},
     .outputs = {"out"},
     .rows = RowRule::kOwn,
     .check = check_combine,
     .flops_per_element = 2},
    {.op = Op::kConv,
     .formula = "out[row] = sum over taps j of weight[column, j] * x[row - taps + 1 + j] (+ bias), "
                "rows of one sequence, 0 before its first; keeps the last taps - 1 rows of x",
     .attrs = AttrsKind::kConv,
     .inputs = {value("x"), norm("weight"), optional_bias("bias")},
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .columns = ColumnRule::kOutputsAlike,
     .state = StateKind::kBlock,
     .effect = true,
     .check = check_conv,
     .flops_per_element = -1},
    {.op = Op::kDeltaRule,
     .formula =
         "q, k of length 1, q times scale; for each value head, row by row: S *= decay; S += "
         "k * rate * (v - k^T S)^T; out = q^T S; keeps S [k_dim, v_dim] of each head",
     .attrs = AttrsKind::kRecurrence,
     .inputs = {value("q"), value("k"), value("v"), value("decay"), value("rate")},
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .state = StateKind::kBlock,
     .effect = true,
     .check = check_delta_rule,
     .flops_per_element = -1},
    {.op = Op::kDecay,
     .formula = "out = e^(-e^weight * x), for x from 0 on",
     .inputs = {value("x"), norm("weight")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .check = check_decay,
     .flops_per_element = 16},
    {.op = Op::kHeadLinear,
     .formula = "for each head: out = its first in_dim columns of x * its own matrix [in, out] (or "
                "[out, in], transposed), which lie one behind the other in weight",
     .attrs = AttrsKind::kHeads,
     .inputs = {value("x"), norm("weight")},
     .outputs = {"out"},
     .check = check_head_linear,
     .flops_per_element = -1},
    {.op = Op::kJoinHeads,
     .formula = "for each head: out = [x | y], its columns of x, then those of y",
     .attrs = AttrsKind::kHeads,
     .inputs = {value("x"), value("y")},
     .outputs = {"out"},
     .check = check_join_heads},
    {.op = Op::kBroadcast,
     .formula = "out[row] = weight, for every row",
     .inputs = {norm("weight")},
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .check = check_broadcast},
    {.op = Op::kShift,
     .formula = "out[row] = x[row - 1], rows of one sequence, 0 before its first; keeps the last "
                "row of x",
     .attrs = AttrsKind::kBlock,
     .inputs = {value("x")},
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .columns = ColumnRule::kAlike,
     .state = StateKind::kBlock,
     .effect = true,
     .check = check_shift},
    {.op = Op::kLerp,
     .formula = "out = x + (y - x) * weight, by element",
     .inputs = {value("x"), value("y"), value("weight")},
     .outputs = {"out"},
     .columns = ColumnRule::kAlike,
     .in_place = true,
     .flops_per_element = 3},
    {.op = Op::kRecurrence,
     .formula = "for each value head, row by row: S = decay * S + b * (a^T S) + k * v^T; "
                "out = q^T S, of S after the row or before it; decay is one number for a head, or "
                "one for each row of S; keeps S [k_dim, v_dim] of each head",
     .attrs = AttrsKind::kRecurrence,
     .inputs = {value("q"), value("k"), value("v"), value("decay"), optional_value("a"),
                optional_value("b")},
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .state = StateKind::kBlock,
     .effect = true,
     .check = check_recurrence,
     .flops_per_element = -1},
    {.op = Op::kHeadDot,
     .formula = "for each head: out = (sum of x * y * weight over its columns) * v",
     .attrs = AttrsKind::kHeads,
     .inputs = {value("x"), value("y"), value("weight"), value("v")},
     .outputs = {"out"},
     .check = check_head_dot,
     .flops_per_element = 4},
    {.op = Op::kExpandHeads,
     .formula = "for each head: out = its one column of x, in all of the head's columns",
     .attrs = AttrsKind::kHeads,
     .inputs = {value("x")},
     .outputs = {"out"},
     .check = check_expand_heads},
    {.op = Op::kWkv,
     .formula =
         "for each column, the mean of v over the rows of a sequence so far: of those before "
         "weighted by e^(k - age * e^decay), age 0 for the last one, of the row itself by "
         "e^(k + first); keeps both sums and their scale",
     .attrs = AttrsKind::kBlock,
     .inputs = {value("k"), value("v"), norm("decay"), norm("first")},
     .outputs = {"out"},
     .rows = RowRule::kTokens,
     .columns = ColumnRule::kAlike,
     .state = StateKind::kBlock,
     .effect = true,
     .check = check_wkv,
     .flops_per_element = 80},
    {.op = Op::kColumns,
     .formula = "out = columns begin to end of x, where they lie",
     .attrs = AttrsKind::kColumns,
     .inputs = {value("x")},
     .outputs = {"out"},
     .input_types = InputTypes::kAlike,
     .output_types = OutputTypes::kSame,
     .run_by = RunBy::kView,
     .check = check_columns},
});
#define LOCKSTEP_OP(number, constant, message, word) \
  static_assert(kSchemas[number].op == Op::constant, #word " has no row in operators/schema.cc");
#include "operators/ops.inc"

// Rows that contradict themselves: operands with gaps, optional ones in front of required ones,
// weights in front of values or behind one that may be missing.
constexpr bool rows_are_sound() {
  for (const OperatorSchema& schema : kSchemas) {
    bool ended = false, optional = false, weights = false, optional_values = false;
    for (const OperandSchema& operand : schema.inputs) {
      const bool none = operand.kind == OperandKind::kNone;
      const bool values = is_value(operand.kind);
      if (!none && (ended || (optional && !operand.optional) || (weights && values) ||
                    (optional_values && !values))) {
        return false;
      }
      ended = ended || none;
      optional = optional || operand.optional;
      optional_values = optional_values || (values && operand.optional);
      weights = weights || (!none && !values);
    }
    if (schema.columns != ColumnRule::kOwn && schema.inputs[0].kind != OperandKind::kValue) {
      return false;
    }
  }
  return true;
}
static_assert(rows_are_sound(), "required operands come first, and values before weights");

}  // namespace

const OperatorSchema& schema_of(Op op) {
  const auto index = static_cast<size_t>(op);
  return kSchemas[index < kSchemas.size() ? index : 0];
}

}  // namespace lockstep
